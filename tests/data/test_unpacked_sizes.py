"""Files that unpack to far more than they should are refused before they fill disk or memory; others are read."""

import bz2
import gzip
import lzma

import numcodecs
import numpy as np
import pyarrow as pa
import pytest
import zarr
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError
from dssl.data.readers import compressed
from dssl.data.readers.formats import open_reader
from tests.memory import traced_peak

from .reading import dense, read_all

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of Zarr, about its codecs
MB = 1 << 20
ZEROS = bytes(64 * MB)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_text_that_unpacks_to_far_more_than_text_does(tmp_path, monkeypatch, suffix, pack):
    path = tmp_path / f"points.csv{suffix}"
    path.write_bytes(pack(b"a,y\n" + b"1,2\n" * MB))
    assert open_reader(path, scratch=tmp_path / "s").scan().n_rows == MB  # 4 MB are harmless
    monkeypatch.setattr(compressed, "LARGE", MB)
    with pytest.raises(DataError, match=rf"points\.csv{suffix} \(.* bytes\) unpacks to more than") as refused:
        open_reader(path, scratch=tmp_path / "t")
    assert "unpack it yourself, and name the file that comes out" in str(refused.value)
    assert list((tmp_path / "t").iterdir()) == []


def test_text_that_leaves_too_little_of_the_disk(tmp_path, monkeypatch):
    path = tmp_path / "points.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + b"1,2\n" * MB))
    monkeypatch.setattr(compressed, "CHECKED", MB)
    monkeypatch.setattr(compressed, "RESERVE", 1 << 60)
    with pytest.raises(DataError, match=r"unpacks to more than the disk of .* has room for"):
        open_reader(path, scratch=tmp_path / "s")
    assert list((tmp_path / "s").iterdir()) == []


def test_arrays_that_unpack_to_far_more_than_data_do(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "points.npz", X=np.zeros((MB, 2)))
    np.savez(tmp_path / "plain.npz", X=np.zeros((MB, 2)))
    monkeypatch.setattr(compressed, "LARGE", MB)
    with pytest.raises(DataError, match=r"points\.npz \(.* bytes\) holds arrays of 16,777,344 bytes") as refused:
        open_reader(tmp_path / "points.npz", scratch=tmp_path / "s").scan()
    assert "save it again with numpy.savez" in str(refused.value)
    assert not (tmp_path / "s").exists()
    assert read_all(tmp_path / "plain.npz", tmp_path)[0].n_rows == MB


def test_arrays_that_the_disk_has_no_room_for(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "points.npz", X=np.zeros((9 * MB, 1)))
    monkeypatch.setattr(compressed, "RESERVE", 1 << 60)
    with pytest.raises(DataError, match=r"unpacks to more than the disk of .* has room for"):
        open_reader(tmp_path / "points.npz", scratch=tmp_path / "s").scan()
    assert list((tmp_path / "s").iterdir()) == []


def test_ones_of_a_sparse_matrix_are_packed_well_and_read(tmp_path, monkeypatch):
    """They alone unpack to more than a hundred times their size."""
    monkeypatch.setattr(compressed, "LARGE", 0)
    X = sparse.random_array((2000, 500), density=0.2, rng=np.random.default_rng(0), format="csr")
    X.data[:] = 1
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    np.savez_compressed(tmp_path / "ones.npz", **parts)
    assert_array_equal(read_all(tmp_path / "ones.npz", tmp_path)[1].X, X.toarray())


def streamed(data):
    """Return a frame of Zstandard that does not tell the size of what it holds."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


LZMA_RAW = {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA2, "preset": 1}]}
CODECS = {
    "zstd": (numcodecs.Zstd(), None), "zstd, streamed": (numcodecs.Zstd(), streamed),
    "blosc": (numcodecs.Blosc(), None), "lz4": (numcodecs.LZ4(), None), "gzip": (numcodecs.GZip(), None),
    "zlib": (numcodecs.Zlib(), None), "bz2": (numcodecs.BZ2(), None), "lzma": (numcodecs.LZMA(), None),
    "lzma, raw": (numcodecs.LZMA(**LZMA_RAW), None)}
POINTS = np.random.default_rng(0).integers(0, 9, (60, 6)).astype(float)


def configured(codec):
    """Return the configuration of a codec of version 2 for version 3."""
    kind = {name: value for name, value in codec.get_config().items() if name != "id"}
    return {"name": f"numcodecs.{codec.codec_id}", "configuration": kind}


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", CODECS)
def test_a_chunk_of_zarr_that_unpacks_to_more_than_its_shape(tmp_path, name, version):
    codec, pack = CODECS[name]
    zarr.create_array(str(tmp_path / "g"), data=POINTS, chunks=(20, 6), zarr_format=version,
                      compressors=codec if version == 2 else configured(codec))
    assert_array_equal(read_all(tmp_path / "g", tmp_path)[1].X, POINTS)
    chunk, = (tmp_path / "g").rglob("1.0" if version == 2 else "c/1/0")
    chunk.write_bytes((pack or codec.encode)(POINTS[20:40].tobytes()))
    assert_array_equal(read_all(tmp_path / "g", tmp_path)[1].X, POINTS)
    chunk.write_bytes((pack or codec.encode)(ZEROS))
    assert chunk.stat().st_size < MB
    reader = open_reader(tmp_path / "g", scratch=tmp_path)
    assert_array_equal(dense(reader.read(0, 20)).X, POINTS[:20])  # other chunks are still read

    def refused():
        with pytest.raises(DataError, match=r"g has a chunk of .* bytes that decompresses to more than 66,496"):
            reader.read(20, 40)

    assert traced_peak(refused, 16 * MB) < 16 * MB  # of 64; the decoder of lzma takes 8


@pytest.mark.parametrize("compressors", [zarr.codecs.ZstdCodec(), zarr.codecs.GzipCodec(), zarr.codecs.BloscCodec()])
@pytest.mark.slow_cases("compressors2")
def test_a_chunk_of_a_shard_that_unpacks_to_more_than_its_shape(tmp_path, compressors):
    """The shard is that of an array with larger chunks, as one that is made to do harm would be."""
    layout = {"shards": (MB, 8), "dtype": "f8", "compressors": compressors, "fill_value": 1}
    large = zarr.create_array(str(tmp_path / "large"), shape=(MB, 8), chunks=(MB, 8), **layout)
    large[:] = np.zeros((MB, 8))
    small = zarr.create_array(str(tmp_path / "g"), shape=(MB, 8), chunks=(MB, 8), **layout)
    path = tmp_path / "g" / "zarr.json"
    assert small.shards == (MB, 8)
    path.write_text(path.read_text().replace(str(MB), "128"))
    (tmp_path / "g" / "c" / "0").mkdir(parents=True)
    (tmp_path / "g" / "c" / "0" / "0").write_bytes((tmp_path / "large" / "c" / "0" / "0").read_bytes())
    reader = open_reader(tmp_path / "g", scratch=tmp_path)
    assert reader.scan().n_rows == 128
    with pytest.raises(DataError, match=r"g has a chunk of .* bytes that decompresses to more than 73,728"):
        reader.read(0, 128)


def test_a_codec_of_which_nothing_is_known(tmp_path):
    zarr.create_array(str(tmp_path / "g"), data=POINTS, zarr_format=2, compressors=None)
    meta = tmp_path / "g" / ".zarray"

    class Unknown(numcodecs.abc.Codec):
        codec_id = "unknown-codec"
        encode = decode = None

    numcodecs.register_codec(Unknown)
    meta.write_text(meta.read_text().replace('"compressor": null', '"compressor": {"id": "unknown-codec"}'))
    with pytest.raises(DataError, match="g has chunks of the codec 'unknown-codec'") as refused:
        open_reader(tmp_path / "g", scratch=tmp_path).read(0, 1)
    assert "write it again with zstd, blosc, gzip, lz4 or no compression" in str(refused.value)


def test_text_of_any_length_is_read(tmp_path):
    for version in (2, 3):
        group = zarr.open_group(str(tmp_path / f"g{version}"), mode="w", zarr_format=version)
        group.create_array("X", data=POINTS)
        names = np.array([f"{'long ' * 30}{i % 3}" for i in range(60)], object)
        group.create_array("y", shape=(60,), chunks=(20,), dtype=str)[:] = names
        assert read_all(tmp_path / f"g{version}", tmp_path)[1].y.tolist() == names.tolist()
