"""Slow test cases that CI leaves out, by file; a quicker case of the same test, or of its subject, runs in CI.

Run them by hand before a release: `pytest -m extended`.
"""

EXTENDED = {
    "tests/submit/test_compose.py": ["test_the_commands_of_the_containers_run_a_pipeline"],
    "tests/submit/test_dask_operator.py": ["test_a_cluster_that_nobody_starts_is_taken_away"],
    "tests/submit/test_jobqueue.py": ["test_a_run_on_jobs_that_come_and_go"],
    "tests/submit/test_cron.py": ["test_cron_starts_a_run_and_the_next_time_there_is_nothing_to_do"],
    "tests/submit/test_slurm.py": [
        "test_a_job_that_gives_way_to_an_urgent_one_comes_back",
        "test_a_job_of_a_node_without_power_goes_on_at_another",
        "test_a_node_that_is_cut_off_goes_on_while_its_job_is_started_elsewhere",
        "test_a_job_whose_time_is_over_is_put_back_until_the_run_has_ended", "test_a_job_is_cancelled_before_it_begins",
        "test_a_job_that_is_cancelled_ends", "test_a_job_that_somebody_ended_is_lost_and_submitted_again",
        "test_a_schedule_comes_again_and_submits_from_within_its_job"],
    "tests/submit/test_local.py": [
        "test_a_run_needs_nobody_who_waits_for_it", "test_a_run_that_is_cancelled_ends_and_keeps_its_parts[here]"],
    "tests/submit/test_script.py": ["test_a_run_that_is_cancelled_has_no_processes"],
    "tests/pipeline/test_plugins.py": ["test_a_kernel_from_outside_serves_the_kinds_that_are_there"],
    "tests/estimators/test_laprls.py": [
        "test_iterations_need_no_room_for_gram_matrices",
        "test_repetitions_are_searches_of_their_own_joined[auto-nystrom-pcg]",
        "test_the_results_of_a_grid_are_those_of_fits_without_each_fold[LapRLSClassifier]"],
    "tests/estimators/test_deformed.py": ["test_unlabeled_points_help[split_moons-settings0-0.02-0.05]"],
    "tests/estimators/test_kmeans.py": ["test_scikit_learn_accepts_it[base]"],
    "tests/knn/test_partitioned.py": ["test_no_task_takes_more_than_its_budget_where_rows_are_in_many_leaves"],
    "tests/pipeline/test_damaged_records.py": [
        f"test_no_damaged_file_ends_in_a_traceback_or_another_result[{state}-{share}]"
        for state in ("finished", "killed") for share in range(1, 8)],
    "tests/pipeline/test_stages.py": [
        f"test_no_function_of_a_stage_can_reach_the_spec[{kind}]" for kind in (
            "ridge", "lapsvm", "cluster", "multiscale", "kernel_clustering")],
    "tests/pipeline/test_real_tables.py": [
        f"test_columns_are_taken_for_what_they_are[{name}]" for name in (
            "money", "money after", "accounting", "percent", "identifiers", "mixed case", "yes and no", "dates",
            "time stamps", "labels missing", "UTF-16", "mark and index", "fixed lists", "text in Parquet", "parts",
            "quantity")],
    "tests/estimators/test_graph_learners.py": [
        *(f"test_known_class_sizes_are_kept[{name}]" for name in ("GraphKernelRidge", "PoissonLearning")),
        "test_new_points_are_predicted_nearly_as_well[GraphKernelRidge]"],
    "tests/estimators/test_grid_search_on_graph.py": [
        f"test_values_are_those_of_fits_without_each_fold[{case}]" for case in (
            "ridge-True-leave_one_out", "ridge-True-4", "ridge of several laplacians-True-leave_one_out",
            "ridge of several laplacians-False-leave_one_out", "laplace-True-leave_one_out",
            "poisson-True-leave_one_out", "ridge of several laplacians-True-4")],
    "tests/end_to_end/test_disasters.py": [
        "test_a_worker_that_is_killed_costs_nothing_but_time", "test_a_run_that_is_killed_goes_on_where_it_was",
        "test_a_scheduler_that_is_lost_is_4_and_the_run_goes_on_elsewhere"],
    "tests/estimators/test_budgets.py": [
        *(f"test_a_smaller_budget_has_a_smaller_rank_and_a_larger_one_the_usual[{name}]" for name in (
            "LapSVC", "ClusterKernelSVC")),
        "test_a_budget_that_is_too_small_is_refused_with_one_that_is_not[ClusterKernelSVC]",
        "test_a_budget_that_is_too_small_is_refused_with_one_that_is_not[LapSVC]"],
    "tests/estimators/test_estimators.py": [
        f"test_scikit_learn_accepts_the_estimator[{case}]" for case in (
            "ClusterKernelSVC()", "PoissonLearning()", "MultiscaleKernelClassifier(q=0.7)", "TransductiveSVC()",
            "LapRLSRegressor()", "LapSVM()", "MultiscaleKernelRegressor(q=0.7)", "LapKernelRidge()")],
    "tests/estimators/test_lapsvm.py": [
        "test_every_solver_gives_the_same_function_with_weights_copies_and_folds[squared_hinge]"],
    "tests/estimators/test_probabilities.py": [
        *(f"test_values_left_out_are_those_of_fits_without_the_label[{case}-3]" for case in (
            *(f"{name}-{solver}-{points}" for name in ("LapRLSClassifier", "LapSVM")
              for solver in ("nystrom-direct", "direct", "pcg", "cg") for points in ("transductive", "inductive")),
            *(f"{name}-{solver}-transductive" for name in ("LapRLSClassifier", "LapSVM")
              for solver in ("nystrom-pcg", "nystrom-cg")))),
        *(f"test_values_of_known_class_sizes_are_calibrated_by_fits_without_each_fold[{name}-3]"
          for name in ("GraphKernelRidge", "SemiSupervisedClassifier")),
        *(f"test_probabilities_are_better_than_the_shares_of_the_classes_and_calibrated[True-{name}]"
          for name in ("LapRLSClassifier", "LapSVM", "PoissonLearning", "LaplaceLearning"))],
    "tests/estimators/test_search_workspace.py": [
        f"test_what_changed_is_not_served[{case}]" for case in ("dtype", "order", "random_state", "splitter")] + [
        f"test_a_search_that_is_repeated_makes_nothing[{name}-]" for name in (
            "LapRLSRegressor", "LapKernelRidge", "GraphKernelRidgeRegressor", "LaplaceLearningRegressor", "LapSVM")],
    "tests/execution/test_task_contract.py": [
        f"test_two_processes_give_the_bits_of_threads[{case}]" for case in (
            "spectrum", "resistances", "equal_rows", "stochastic_affinity",
            "laprls_by_default", "deformed_kernel", "laprls_of_stored_points_kmeans_nystrom-pcg",
            "laprls_of_stored_words_leverage_nystrom-pcg", "laprls_of_stored_words_kmeans_nystrom-direct",
            "laprls_of_stored_points_uniform_direct", "laprls_of_stored_points_leverage_pcg",
            "lapsvm_of_stored_words_uniform_nystrom-pcg", "lapsvm_of_stored_points_uniform_nystrom-direct",
            "ridge_on_the_graph_of_stored_points", "deformed_kernel_on_given_neighbors",
            "deformed_kernel_on_a_given_graph", "deformed_kernel_of_a_table", "laplace_on_the_graph_of_stored_words")],
    "tests/data/test_labels.py": [
        "test_a_random_choice_that_covers_all_classes_is_not_changed[one block]",
        "test_test_points_keep_the_shares_of_the_classes[many blocks]",
        "test_things_are_dealt_in_proportion_and_a_larger_count_takes_no_fewer[many blocks]",
        "test_chosen_labels_cover_every_class[many blocks]"],
    "tests/fuzz/test_readers.py": [
        f"test_any_file_is_read_or_refused_with_a_message[{case}]" for case in (
            "damaged", "damaged inside", "random bytes", "options")],
    "tests/graph/test_components.py": [
        "test_no_task_holds_more_than_the_budget[star]",
        "test_no_task_holds_more_than_the_budget[mixed]"],
    "tests/graph/test_functions.py": ["test_either_way_gives_the_functions[normalized-0-0]"],
    "tests/knn/test_neighbors.py": ["test_points_beyond_the_budget_are_streamed[tree]"],
    "tests/graph/test_weights.py": [
        "test_no_task_and_no_driver_holds_more_than_a_budget_for_blocks[self_tuned]"],
    "tests/kernels/test_leverage.py": [
        f"test_scores_sum_to_about_the_number_of_landmarks[{case}]" for case in ("0.3", "1.0")],
    "tests/kernels/test_stochastic.py": [
        "TestMemory::test_a_rank_that_fits_is_the_largest_and_does[33554432]",
        "TestPointsOfOneKind::test_fewer_points_than_features[7]"],
    "tests/learners/on_graph/test_graph_ridge.py": [
        *(f"test_the_average_is_that_of_dense_kernels_with_refits[{case}]" for case in ("0.1-True", "inf-False")),
        "test_the_average_is_that_of_dense_kernels_with_refits[0.1-False]"],
    "tests/learners/laprls/test_inductive.py": [
        f"test_workers_give_the_bits_of_threads[{loss}]" for loss in ("Logistic()", "Squared()")],
    "tests/learners/laprls/test_smooth.py": [
        *(f"test_every_method_finds_the_minimum[45-HuberHinge(h=0.01)-nystrom-cg-{laplacian}]" for laplacian in (
            "normalized", "unnormalized")),
        "test_every_method_finds_the_minimum[12-HuberHinge(h=0.01)-nystrom-cg-normalized]",
        "test_every_method_finds_the_minimum[12-HuberHinge(h=0.01)-nystrom-pcg-normalized]",
        *(f"test_every_method_finds_the_minimum[{labels}-{loss}-nystrom-{solver}-unnormalized]" for labels in (12, 45)
          for loss in ("SquaredHinge()", "Logistic()") for solver in ("pcg", "cg")),
        "test_every_method_finds_the_minimum[45-HuberHinge(h=0.01)-nystrom-pcg-unnormalized]",
        "test_every_method_finds_the_minimum[12-HuberHinge(h=0.01)-nystrom-pcg-unnormalized]",
        "test_every_method_finds_the_minimum[12-HuberHinge(h=0.01)-nystrom-cg-unnormalized]"],
    "tests/learners/laprls/test_products_memory.py": [
        "test_a_worker_that_dies_between_products_changes_no_bit",
        "test_gram_matrices_take_the_memory_of_the_formula[float64-kernel0-True]",
        "test_gram_matrices_take_the_memory_of_the_formula[float32-kernel1-False]",
        "test_columns_take_the_memory_of_the_formula[float32-0]",
        "test_columns_take_the_memory_of_the_formula[float64-1073741824]"],
    "tests/learners/test_transductive.py": [
        f"test_memory_is_a_formula[{case}]" for case in ("1000-600-1", "20000-100-1", "3000-100-6")],
    "tests/pipeline/test_measured_costs.py": [
        f"test_stages_take_what_is_predicted[{case}]" for case in (
            "wide", "tall", "clustering", "cluster", "multiscale",
            "regression", "given graph", "graph, laplace", "graph, poisson",
            "graph, ridge", "text", "lapsvm",
            "NN-descent", "svmlight", "laprls, all points, direct", "lapsvm, inductive", "automatic, many labels",
            "graph, learners to choose from", "laprls, all points, iterations", "laprls, iterations",
            "laprls, sparse, leverage", "laprls, inductive", "clustering without a graph",
            "graph, ridge, wide", "graph, ridge, class sizes",
            "graph, ridges to choose from", "graph, sparse", "cluster, stochastic")],
    "tests/pipeline/test_automatic.py": [
        "test_the_scale_is_chosen_by_ranges_and_by_labels_or_given",
        *(f"test_a_run_finds_what_the_estimator_finds[{case}]" for case in ("random_state", "class sizes")),
        "test_the_choice_is_that_of_the_told_budget_and_not_of_the_machine"],
    "tests/selection/test_chosen.py": [
        "test_what_is_chosen_is_the_most_probable_by_refits_without_each_label[2]",
        "test_labels_choose_the_bandwidth[penalties1]"],
    "tests/pipeline/test_laprls.py": [
        *(f"test_a_plan_counts_the_tasks_of_all_repetitions[{case}-3]" for case in (
            "laprls-nystrom-pcg", "laprls-direct", "laprls-pcg", "lapsvm-nystrom-pcg", "lapsvm-direct")),
        *(f"test_a_plan_counts_the_tasks_of_all_repetitions[{case}-1]" for case in (
            "laprls-nystrom-pcg", "laprls-direct", "lapsvm-nystrom-direct", "lapsvm-direct")),
        *(f"test_every_method_solves_the_same_problem[{case}]" for case in (
            "nystrom-cg-leverage", "nystrom-pcg-kmeans", "cg-uniform")),
        "test_points_that_are_held_out_may_leave_the_graph[{'kind': 'laprls'}]",
        "test_points_that_are_held_out_may_leave_the_graph[{'kind': 'laprls', 'solver': 'direct'}]",
        "test_a_run_that_is_killed_between_kernels_searches_none_twice[lapsvm]",
        "test_every_method_solves_the_same_problem[nystrom-pcg-uniform]",
        "test_penalties_and_bandwidth_are_chosen_by_default[8]",
        "test_a_fit_from_what_a_selection_keeps_is_planned_as_one[selection1]",
        "test_a_plan_counts_the_tasks_of_all_repetitions[lapsvm-nystrom-direct-3]"],
    "tests/pipeline/test_budgets.py": ["test_a_rank_is_what_the_budget_of_the_spec_lets_be[svm]"],
    "tests/pipeline/test_graph_learners.py": [
        *(f"test_a_run_finds_what_the_estimator_finds[{case}]" for case in (
            "family", "family, sizes", "poisson")),
        "test_quantities[ridge]",
        "test_a_run_finds_what_the_estimator_finds[one kernel]",
        "test_a_run_finds_what_the_estimator_finds[laplace, sizes]"],
    "tests/pipeline/test_probabilities.py": [
        *(f"test_they_sum_to_one_and_the_most_probable_class_is_the_label[{case}]" for case in (
            "ridge", "laplace", "laprls_pcg", "laprls_dense", "lapsvm", "svm", "poisson")),
        "test_they_sum_to_one_and_the_most_probable_class_is_the_label[laprls]",
        "test_they_sum_to_one_and_the_most_probable_class_is_the_label[graph]",
        "test_what_is_not_calibrated_is_refused_before_a_point_is_read[model0-labels0]",
        "test_they_are_those_of_the_estimator[model2-estimator2]"],
    "tests/pipeline/test_selection.py": [
        f"test_folds_repetitions_measure_and_rule_of_a_choice[selection{i}-model{i}]" for i in (1, 2, 3, 4, 5)] + [
        "test_the_weight_of_the_graph_is_by_its_structure_and_the_labels[hinge]"],
    "tests/pipeline/test_search.py": [
        *(f"test_{name}[{kind}]" for kind in ("laprls", "ridge", "lapsvm") for name in (
            "each_graph_has_stages_of_its_own_and_the_best_is_fitted", "all_some_and_the_better_of_all_combinations")),
        "test_a_search_by_halving_that_is_killed_goes_on[lapsvm]",
        "test_a_search_by_halving_that_is_killed_goes_on[svm]"],
    "tests/data/test_folders.py": [
        "test_a_group_with_labels_and_a_split[2]"],
    "tests/data/test_ingest.py": [
        "test_every_format_gives_the_same_bytes_at_any_block_height[float64-csr.npz]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float32-t.npy]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float64-t.svm]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float32-t.csv.gz]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float32-dense.npz]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float32-t.csv]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float64-t.csv.gz]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float32-csr.npz]",
        "test_every_format_gives_the_same_bytes_at_any_block_height[float64-t.csv]",
        "test_damaged_files_are_read_or_refused_but_never_crash[t.svm]"],
    "tests/data/test_parquet.py": [
        "test_damaged_files_are_read_or_refused_but_never_crash[options1]"],
    "tests/estimators/test_automatic.py": [
        "test_quantities[friedman-0.75]",
        "test_thousands_of_labels_take_one_system"],
    "tests/estimators/test_class_frequencies.py": [
        "test_the_predicted_class_is_the_most_probable_one[LaplaceLearning]",
        "test_the_predicted_class_is_the_most_probable_one[LapRLSClassifier]",
        "test_a_class_that_is_told_to_be_more_frequent_is_predicted_more_often[LaplaceLearning]",
        "test_a_class_that_is_told_to_be_more_frequent_is_predicted_more_often[GraphKernelRidge]",
        "test_a_class_that_is_told_to_be_more_frequent_is_predicted_more_often[LapRLSClassifier]",
        "test_with_equally_many_labels_nothing_is_moved[GraphKernelRidge]",
        "test_with_equally_many_labels_nothing_is_moved[LapRLSClassifier]",
        "test_balanced_weights_make_classes_equal[TransductiveSVC]"],
    "tests/estimators/test_cluster.py": [
        "test_a_kernel_in_which_all_points_are_alike_is_told[given0]"],
    "tests/estimators/test_grid_search.py": [
        "test_rows_are_those_of_the_estimators_own_searches[LapRLSClassifier]",
        "test_rows_are_those_of_the_estimators_own_searches[LapSVM]",
        "test_rungs_share_the_gram_matrices_of_a_kernel[LapSVM]"],
    "tests/estimators/test_scoring.py": [
        "test_decisions_are_best_for_the_metric_and_probabilities_are_the_same[shares0]",
        "test_the_gain_is_told_in_the_metric[f1_macro]",
        "test_the_gain_is_told_in_the_metric[f1]"],
    "tests/estimators/test_transductive.py": [
        "test_probabilities_are_calibrated_on_fits_without_the_label[None]"],
    "tests/execution/test_ordered.py": [
        "test_no_task_holds_more_than_the_budget[False]"],
    "tests/learners/laprls/test_dense.py": [
        "test_a_ratio_of_penalties_is_factored_once[HuberHinge(h=0.01)]"],
    "tests/learners/on_graph/test_harmonic_and_poisson.py": [
        "test_the_order_of_points_and_of_classes_does_not_matter[fit_poisson]"],
    "tests/learners/test_influence.py": [
        "test_the_fast_path_is_the_dense_one_with_all_landmarks_and_tends_to_it[False-Logistic()]",
        "test_the_fast_path_is_the_dense_one_with_all_landmarks_and_tends_to_it[False-HuberHinge(h=0.5)]",
        "test_the_fast_path_is_the_dense_one_with_all_landmarks_and_tends_to_it[True-HuberHinge(h=0.5)]",
        "test_refined_values_are_closer_to_refits[30-HuberHinge(h=0.01)]"],
    "tests/pipeline/test_class_weight.py": [
        "test_pipeline_and_estimator_weigh_labels_alike[model7-MultiscaleKernelClassifier]",
        "test_pipeline_and_estimator_weigh_labels_alike[model1-LaplaceLearning]",
        "test_pipeline_and_estimator_weigh_labels_alike[model2-GraphKernelRidge]",
        "test_pipeline_and_estimator_weigh_labels_alike[model4-LapRLSClassifier]"],
    "tests/pipeline/test_scoring.py": [
        *(f"test_pipeline_and_estimator_decide_and_compare_alike[{name}]" for name in (
            "accuracy", "f1", "f1_macro", "roc_auc")),
        *(f"test_test_points_are_scored_and_compared_in_the_metric[{name}]" for name in ("f1", "f1_macro", "roc_auc"))],
    "tests/pipeline/test_clustering.py": [
        "test_without_classes_and_in_every_space[deformed]",
        "test_without_classes_and_in_every_space[cluster]",
        "test_without_classes_and_in_every_space[eigengap]"],
    "tests/pipeline/test_costs.py": [
        "test_costs_of_laprls_are_whole_and_the_least_is_no_more_than_the_peak[scores]",
        "test_costs_of_laprls_are_whole_and_the_least_is_no_more_than_the_peak[models]"],
    "tests/pipeline/test_first_spec.py": [
        "test_a_code_of_missing_cells_is_named_as_missing_with_columns_and_counts[csv]"],
    "tests/pipeline/test_integrity.py": [
        "test_a_run_that_lost_its_lock_ends[execution1]"],
    "tests/pipeline/test_lapsvm.py": [
        "test_the_model_is_that_of_the_estimator[loss1]"],
    "tests/pipeline/test_like_with_like.py": [
        "test_baselines_are_told_the_class_sizes[model1]",
        "test_the_majority_class_by_labels_is_told_the_class_sizes[model0]"],
    "tests/pipeline/test_prediction.py": [
        "test_a_pipeline_of_several_files_or_of_a_folder_is_that_of_the_whole[parts]"],
    "tests/pipeline/test_predictions.py": [
        "test_the_command_that_the_report_prints_works_as_printed[as_parquet]"],
    "tests/pipeline/test_regression.py": [
        "test_a_ridge_classifier_has_an_rmse_from_the_codes[3]"],
    "tests/pipeline/test_run.py": [
        "test_an_interrupted_stage_repeats_the_missing_parts_only[left2]",
        "test_an_interrupted_stage_repeats_the_missing_parts_only[left0]"],
    "tests/pipeline/test_spec.py": [
        "test_a_value_that_the_model_refuses_needs_only_what_knows_it[laprls-tolerance: -1-needed1]"],
    "tests/solvers/test_solve.py": [
        "test_memory_stays_within_the_stated_formula[amg]"],
}
