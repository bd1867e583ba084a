"""The constructs of SQL that a statement may have, by the names of sqlglot's nodes: those that only read tables."""

from __future__ import annotations

from functools import cache
from typing import Final


def names(*lines: str) -> frozenset[str]:
    """Return the words of some lines."""
    return frozenset(name for line in lines for name in line.split())


_COMMON: Final = names(
    # queries
    "Select Subquery Union Except Intersect Values With CTE From Join Where Group Having Order Ordered Limit Offset",
    "Fetch LimitOptions Distinct Qualify Window WindowSpec Lateral Unnest Table TableAlias TableSample Tuple Cube",
    "Rollup GroupingSets Star Alias Aliases WithinGroup Filter IgnoreNulls RespectNulls ColumnDef",
    # names, types and values
    "Column Identifier Dot Var DataType DataTypeParam ObjectIdentifier IntervalSpan Interval Literal Null Boolean",
    "BitString HexString ByteString RawString UnicodeString National Array Struct PropertyEQ Bracket Slice",
    # operators
    "And Or Xor Not Paren EQ NEQ GT GTE LT LTE Is Like ILike SimilarTo RegexpLike RegexpILike Glob Between In Exists",
    "Any All Add Sub Mul Div IntDiv Mod Neg Pow Sqrt Cbrt Concat BitwiseAnd BitwiseOr BitwiseXor BitwiseNot",
    "BitwiseLeftShift BitwiseRightShift DPipe NullSafeEQ NullSafeNEQ Escape Collate AtTimeZone Cast TryCast Case If",
    "Coalesce Overlaps Adjacent ExtendsLeft ExtendsRight Distance ArrayContainsAll ArrayContainedBy ArrayOverlaps",
    "Match JSONExtract JSONExtractScalar JSONBExtract JSONBExtractScalar JSONBContains JSONBContainsAllTopKeys",
    "JSONBContainsAnyTopKeys JSONBContainsTopKey JSONBDeleteAtPath JSONBPathExists JSONBExists JSONPath JSONPathRoot",
    "JSONPathKey JSONPathSubscript JSONPathWildcard JSONPathSlice JSONPathUnion JSONPathRecursive",
    # calls; the names of `Anonymous` ones are looked up
    "Anonymous AnonymousAggFunc ParameterizedAgg CombinedAggFunc CombinedParameterizedAgg Extract Trim Substring",
    "StrPosition Overlay GroupConcat Convert CurrentDate CurrentTime CurrentTimestamp CurrentDatetime Localtime",
    "Localtimestamp CurrentUser SessionUser CurrentSchema CurrentCatalog UtcDate UtcTime UtcTimestamp Kwarg Lambda",
    "MatchAgainst",
)

_PIVOTS: Final = names("Pivot PivotAlias PivotAny UnpivotColumns")
_JSON_TABLE: Final = names("JSONTable JSONSchema JSONColumnDef")
_ADDED: Final = {
    "duckdb": _PIVOTS | names("ToMap Map Comprehension"),
    "snowflake": _PIVOTS,
    "bigquery": _PIVOTS | names("HavingMax"),
    "tsql": _PIVOTS | names("OpenJSON OpenJSONColumnDef WithTableHint"),
    "fabric": _PIVOTS | names("OpenJSON OpenJSONColumnDef WithTableHint"),
    "mysql": _JSON_TABLE | names("JSONArrayContains Introducer Partition"),
    "spark": _PIVOTS,
    "databricks": _PIVOTS,
    "oracle": _JSON_TABLE | names("Connect Prior Pseudocolumn"),
    "clickhouse": names("Final"),
}

QUERY_PARTS: Final = names(
    "with_ expressions distinct operation_modifiers from_ joins laterals where group having qualify windows order",
    "limit offset connect pivots sample this expression alias by_name side kind on",
)
"""What a query may have; not INTO, FOR UPDATE, SETTINGS, FORMAT, hints and options."""


@cache
def allowed_constructs(dialect: str) -> frozenset[str]:
    """Return the names of the nodes that a statement may consist of."""
    return _COMMON | _ADDED.get(dialect, frozenset())
