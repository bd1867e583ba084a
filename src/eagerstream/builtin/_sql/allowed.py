"""Allowlists by dialect: functions that only compute a value, and constructs that only read tables."""

from __future__ import annotations

from functools import cache
from typing import Final


def names(*lines: str) -> frozenset[str]:
    """Return the words of all lines."""
    return frozenset(name for line in lines for name in line.split())


# --- functions: they have no effect and no reach --------------------------------------------------------------------

_COMMON: Final = names(
    # conditions and numbers
    "coalesce nullif greatest least if abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 power",
    "pow mod pi degrees radians sin cos tan cot asin acos atan atan2 sinh cosh tanh div width_bucket bit_count",
    # text
    "lower upper length char_length character_length octet_length bit_length concat concat_ws left right lpad rpad",
    "ltrim rtrim trim btrim substr substring replace reverse repeat position strpos instr initcap ascii chr char",
    "translate split_part starts_with ends_with contains to_hex hex unhex md5 sha1 sha256 sha512 encode decode format",
    "to_char regexp_replace regexp_like regexp_matches regexp_count regexp_instr regexp_substr soundex overlay space",
    # dates and times
    "now current_date current_time current_timestamp localtime localtimestamp extract date_part date_trunc date_add",
    "date_sub date_diff datediff dateadd date time timestamp year quarter month week day hour minute second dayofweek",
    "dayofmonth dayofyear weekday weekofyear last_day dayname monthname make_date to_date to_timestamp",
    # aggregates and windows
    "count sum avg min max stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp median",
    "mode percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx",
    "regr_sxy regr_syy bool_and bool_or every any_value bit_and bit_or bit_xor array_agg string_agg listagg grouping",
    "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value",
    # arrays, documents, rows
    "array row unnest cardinality array_length json_object json_array json_arrayagg json_objectagg json_value",
    "json_query json_extract json_array_length generate_series any all exists cast try_cast convert current_user",
    "session_user current_schema current_database current_catalog version",
)

_POSTGRES: Final = names(
    "acosd asind atand atan2d cosd cotd sind tand acosh asinh atanh erf erfc factorial gcd lcm scale min_scale",
    "trim_scale random random_normal num_nonnulls num_nulls to_number to_ascii unistr quote_ident quote_literal",
    "quote_nullable parse_ident string_to_array string_to_table array_to_string regexp_match regexp_split_to_array",
    "regexp_split_to_table normalize is_normalized starts_with sha224 sha384 get_bit get_byte set_bit set_byte",
    "convert_from convert_to crc32 crc32c casefold reverse age clock_timestamp statement_timestamp",
    "transaction_timestamp timeofday date_bin isfinite justify_days justify_hours justify_interval make_interval",
    "make_time make_timestamp make_timestamptz timezone date_subtract overlaps pg_size_pretty pg_size_bytes pg_typeof",
    "pg_column_size gen_random_uuid uuidv4 uuidv7 uuid_extract_version uuid_extract_timestamp enum_first enum_last",
    "enum_range array_append array_cat array_dims array_fill array_lower array_ndims array_position array_positions",
    "array_prepend array_remove array_replace array_reverse array_sample array_shuffle array_sort array_upper",
    "trim_array generate_subscripts range_agg range_intersect_agg range_merge isempty lower_inc lower_inf upper_inc",
    "upper_inf int4range int8range numrange tsrange tstzrange daterange multirange int4multirange int8multirange",
    "nummultirange tsmultirange tstzmultirange datemultirange to_json to_jsonb row_to_json array_to_json json_agg",
    "jsonb_agg json_object_agg jsonb_object_agg json_agg_strict jsonb_agg_strict json_object_agg_strict",
    "jsonb_object_agg_strict json_object_agg_unique jsonb_object_agg_unique json_build_array json_build_object",
    "jsonb_build_array jsonb_build_object jsonb_object json_array_elements json_array_elements_text",
    "jsonb_array_elements jsonb_array_elements_text jsonb_array_length json_each json_each_text jsonb_each",
    "jsonb_each_text json_extract_path json_extract_path_text jsonb_extract_path jsonb_extract_path_text",
    "json_object_keys jsonb_object_keys json_typeof jsonb_typeof json_strip_nulls jsonb_strip_nulls jsonb_set",
    "jsonb_set_lax jsonb_insert jsonb_delete jsonb_pretty jsonb_path_exists jsonb_path_match jsonb_path_query",
    "jsonb_path_query_array jsonb_path_query_first jsonb_path_exists_tz jsonb_path_match_tz jsonb_path_query_tz",
    "jsonb_path_query_array_tz jsonb_path_query_first_tz json_to_record json_to_recordset jsonb_to_record",
    "jsonb_to_recordset json_populate_record json_populate_recordset jsonb_populate_record jsonb_populate_recordset",
    "to_tsvector to_tsquery plainto_tsquery phraseto_tsquery websearch_to_tsquery ts_rank ts_rank_cd ts_headline",
    "setweight strip numnode querytree tsvector_to_array array_to_tsvector ts_delete ts_filter tsquery_phrase host",
    "hostmask netmask network masklen family broadcast abbrev inet_same_family inet_merge area center diameter height",
    "width radius box circle line lseg path point polygon current_schemas format_type obj_description col_description",
    "shobj_description pg_get_viewdef pg_get_constraintdef pg_get_indexdef pg_get_expr pg_get_userbyid",
    "pg_table_is_visible to_regclass to_regtype to_regnamespace has_table_privilege has_column_privilege",
    "has_schema_privilege pg_table_size pg_relation_size pg_indexes_size pg_total_relation_size",
    # names of types that PostgreSQL also takes for functions
    "text varchar bpchar numeric float4 float8 int2 int4 int8 bool interval timestamptz timetz",
    # pg_trgm, unaccent and fuzzystrmatch
    "similarity word_similarity strict_word_similarity show_trgm unaccent levenshtein metaphone dmetaphone",
    # functions behind SQL's special syntaxes
    "like_escape similar_to_escape pg_collation_for",
)

_DUCKDB: Final = names(
    "add subtract multiply divide fdiv fmod even factorial gamma lgamma gcd greatest_common_divisor lcm",
    "least_common_multiple isinf isnan isfinite signbit nextafter xor random round_even roundbankers asinh acosh",
    "atanh bin to_base from_base64 to_base64 base64 from_hex to_binary from_binary unbin format_bytes hash md5_number",
    "bar prefix suffix len lcase ucase length_grapheme left_grapheme right_grapheme substring_grapheme strip_accents",
    "nfc_normalize printf string_split string_split_regex str_split str_split_regex split string_to_array strlen ord",
    "unicode regexp_extract regexp_extract_all regexp_full_match regexp_escape regexp_split_to_array",
    "regexp_split_to_table levenshtein editdist3 damerau_levenshtein hamming mismatches jaccard jaro_similarity",
    "jaro_winkler_similarity url_encode url_decode parse_dirname parse_dirpath parse_filename parse_path like_escape",
    "not_like_escape ilike_escape not_ilike_escape age century decade millennium era epoch epoch_ms epoch_ns epoch_us",
    "microsecond millisecond nanosecond isodow isoyear julian dayofyear yearweek make_time make_timestamp",
    "make_timestamp_ms make_timestamp_ns make_timestamptz strftime strptime try_strptime today transaction_timestamp",
    "time_bucket timezone timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds",
    "to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_weeks to_years datepart datesub",
    "datetrunc date_sub normalized_interval ago days_in_month get_current_time get_current_timestamp",
    "current_localtime current_localtimestamp approx_count_distinct approx_quantile approx_top_k arbitrary arg_max",
    "arg_max_null arg_min arg_min_null argmax argmin bitstring_agg count_if countif count_star entropy favg first",
    "fsum geomean geometric_mean group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop last list",
    "lttb mad max_by mean min_by product quantile quantile_cont quantile_disc reservoir_quantile sem skewness",
    "sumkahan sum_no_overflow wavg weighted_avg equi_width_bins list_value list_pack array_value list_concat list_cat",
    "array_concat array_cat list_contains list_has array_contains array_has list_has_all list_has_any array_has_all",
    "array_has_any list_position list_indexof array_position array_indexof list_extract list_element array_extract",
    "element_at list_slice array_slice list_sort array_sort list_reverse_sort array_reverse_sort list_reverse",
    "array_reverse list_distinct array_distinct list_unique array_unique list_append list_prepend array_append",
    "array_prepend array_push_back array_push_front array_pop_back array_pop_front list_filter array_filter filter",
    "list_transform array_transform list_apply array_apply apply list_reduce array_reduce reduce list_zip array_zip",
    "list_where array_where list_select array_select list_resize array_resize list_intersect array_intersect",
    "list_grade_up array_grade_up grade_up list_any_value list_avg list_bit_and list_bit_or list_bit_xor",
    "list_bool_and list_bool_or list_count list_entropy list_first list_histogram list_kurtosis list_last list_mad",
    "list_max list_median list_min list_mode list_product list_sem list_skewness list_stddev_pop list_stddev_samp",
    "list_string_agg list_sum list_var_pop list_var_samp list_approx_count_distinct list_distance",
    "list_cosine_distance list_cosine_similarity list_dot_product list_inner_product array_distance",
    "array_cosine_distance array_cosine_similarity array_cross_product array_dot_product array_inner_product flatten",
    "array_to_string range generate_subscripts list_aggregate list_aggr array_aggregate array_aggr aggregate map",
    "map_concat map_contains map_contains_entry map_contains_value map_entries map_extract map_extract_value",
    "map_from_entries map_keys map_values struct_pack struct_extract struct_extract_at struct_insert struct_update",
    "struct_concat struct_contains struct_has struct_keys struct_values struct_position union_extract union_tag",
    "union_value constant_or_null enum_code enum_first enum_last enum_range enum_range_boundary json to_json",
    "row_to_json array_to_json from_json from_json_strict json_contains json_each json_exists json_extract_path",
    "json_extract_path_text json_extract_string json_group_array json_group_object json_group_structure json_keys",
    "json_merge_patch json_pretty json_quote json_structure json_transform json_transform_strict json_tree json_type",
    "json_valid json_normalize json_strip_nulls json_set json_insert json_replace json_remove ifnull typeof pg_typeof",
    "pg_size_pretty bitstring bit_position get_bit set_bit uuid gen_random_uuid uuidv4 uuidv7 uuid_extract_timestamp",
    "uuid_extract_version columns col_description obj_description format_type current_schemas pg_get_constraintdef",
    "pg_get_viewdef",
)

_DUCKDB_TABLES: Final = names(
    "generate_series json_each json_tree range regexp_split_to_table repeat repeat_row summary unnest",
    "generate_subscripts duckdb_columns duckdb_constraints duckdb_functions duckdb_indexes duckdb_keywords",
    "duckdb_schemas duckdb_sequences duckdb_tables duckdb_types duckdb_views pragma_show pragma_storage_info",
    "pragma_table_info pragma_version",
)
"""DuckDB's functions behind FROM. A function of the same name in an expression is a different one."""

_MYSQL: Final = names(
    "acos adddate addtime bin bin_to_uuid char_length conv convert_tz crc32 curdate curtime date_format day datediff",
    "elt export_set field find_in_set format from_base64 from_days from_unixtime get_format group_concat ifnull",
    "inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr interval is_ipv4 is_ipv6 is_uuid isnull lcase locate",
    "make_set makedate maketime microsecond mid oct ord period_add period_diff quote rand regexp_like sec_to_time sha",
    "sha2 std str_to_date strcmp subdate substring_index subtime sysdate time_format time_to_sec timediff",
    "timestampadd timestampdiff to_base64 to_days to_seconds truncate ucase unix_timestamp utc_date utc_time",
    "utc_timestamp uuid uuid_to_bin values weight_string yearweek user database schema charset collation any_value",
    "match json_array_append json_array_insert json_contains json_contains_path json_depth json_insert json_keys",
    "json_length json_merge_patch json_merge_preserve json_overlaps json_pretty json_quote json_remove json_replace",
    "json_schema_valid json_search json_set json_table json_type json_unquote json_valid member nvl nvl2 addmonths",
    "st_area st_asgeojson st_astext st_contains st_distance st_distance_sphere st_intersects st_geomfromtext",
    "st_within st_x st_y point",
)

_TSQL: Final = names(
    "len datalength charindex patindex stuff quotename str nchar unicode replicate string_escape string_split square",
    "isnull iif choose isnumeric isdate try_convert try_parse parse getdate getutcdate sysdatetime sysutcdatetime",
    "sysdatetimeoffset datename datepart datefromparts datetimefromparts datetime2fromparts timefromparts",
    "datetimeoffsetfromparts smalldatetimefromparts eomonth switchoffset todatetimeoffset datetrunc date_bucket",
    "datediff_big count_big stdev stdevp var varp checksum_agg approx_count_distinct grouping_id json_modify isjson",
    "json_path_exists openjson newid rand rowcount_big db_name schema_name object_name object_id suser_sname",
    "user_name checksum binary_checksum hashbytes format concat atn2 log10 try_cast nullif greatest least trim",
)

_ORACLE: Final = names(
    "nvl nvl2 add_months months_between next_day new_time sysdate systimestamp numtodsinterval numtoyminterval",
    "to_dsinterval to_yminterval to_number to_clob to_nchar tz_offset sys_extract_utc from_tz wm_concat instrb",
    "lengthb substrb nls_lower nls_upper rawtohex hextoraw remainder bitand nanvl ratio_to_report lnnvl vsize dump",
    "ora_hash standard_hash stats_mode json_exists approx_count_distinct cluster_id sys_guid uid user trunc",
    "sessiontimezone",
)

_SNOWFLAKE: Final = names(
    "iff ifnull nvl nvl2 zeroifnull nullifzero decode equal_null div0 div0null square haversine truncate uniform",
    "random randstr seq4 seq8 uuid_string try_to_date try_to_timestamp try_to_number try_to_decimal try_to_double",
    "try_to_boolean to_number to_decimal to_numeric to_double to_boolean to_varchar to_time to_timestamp_ntz",
    "to_timestamp_ltz to_timestamp_tz to_binary to_array to_object to_variant to_json parse_json try_parse_json",
    "typeof charindex editdistance jarowinkler_similarity len strtok strtok_to_array split strtok_split_to_table",
    "split_to_table insert rlike regexp regexp_substr_all like_all like_any ilike md5_hex sha1_hex sha2 sha2_hex",
    "base64_encode base64_decode_string hex_encode hex_decode_string startswith endswith collate getdate sysdate",
    "systimestamp dayname monthname dayofweekiso yearofweek yearofweekiso weekiso add_months months_between next_day",
    "previous_day timeadd timediff timestampadd timestampdiff datetime_part time_slice date_from_parts",
    "time_from_parts timestamp_from_parts convert_timezone count_if approx_count_distinct hll approx_percentile",
    "approx_top_k max_by min_by object_agg array_unique_agg array_union_agg booland_agg boolor_agg boolxor_agg",
    "kurtosis skew ratio_to_report conditional_true_event conditional_change_event array_construct",
    "array_construct_compact array_append array_prepend array_cat array_compact array_contains array_distinct",
    "array_except array_insert array_intersection array_max array_min array_position array_remove array_remove_at",
    "array_size array_slice array_sort array_to_string arrays_overlap arrays_zip array_generate_range",
    "object_construct object_construct_keep_null object_delete object_insert object_keys object_pick get get_path",
    "get_ignore_case is_array is_boolean is_null_value is_object is_varchar as_array as_object as_integer as_varchar",
    "check_json json_extract_path_text flatten generator filter transform reduce grouping_id hash current_warehouse",
    "current_role st_distance st_makepoint st_x st_y st_contains st_within st_intersects st_asgeojson",
)

_BIGQUERY: Final = names(
    "ifnull safe_divide safe_multiply safe_add safe_subtract safe_negate ieee_divide is_inf is_nan rand byte_length",
    "code_points_to_string to_code_points from_base64 to_base64 from_base32 to_base32 from_hex normalize",
    "normalize_and_casefold regexp_contains regexp_extract regexp_extract_all safe_cast split lcase farm_fingerprint",
    "generate_uuid edit_distance safe_convert_bytes_to_string unicode collate string current_datetime datetime",
    "datetime_add datetime_sub datetime_diff datetime_trunc timestamp_add timestamp_sub timestamp_diff",
    "timestamp_trunc timestamp_seconds timestamp_millis timestamp_micros time_add time_sub time_diff time_trunc",
    "unix_date unix_seconds unix_millis unix_micros parse_date parse_datetime parse_time parse_timestamp format_date",
    "format_datetime format_time format_timestamp date_from_unix_date generate_date_array generate_timestamp_array",
    "generate_array approx_count_distinct approx_quantiles approx_top_count approx_top_sum array_concat",
    "array_concat_agg array_first array_includes array_last array_reverse array_slice array_to_string countif",
    "logical_and logical_or max_by min_by struct json_extract_array json_extract_scalar json_extract_string_array",
    "json_query_array json_value_array json_keys json_type parse_json to_json to_json_string bool int64 float64",
    "lax_bool lax_int64 lax_float64 lax_string parse_numeric parse_bignumeric net.host net.reg_domain range_bucket",
    "offset ordinal safe_offset safe_ordinal st_distance st_geogpoint st_x st_y st_contains st_within st_intersects",
    "st_asgeojson st_dwithin",
)

_SPARK: Final = names(
    "ifnull nvl nvl2 isnull isnotnull nanvl isnan rand randn uuid bround conv factorial pmod shiftleft shiftright",
    "base64 unbase64 elt find_in_set format_number format_string levenshtein locate printf rlike regexp",
    "regexp_extract regexp_extract_all sentences split substring_index crc32 hash xxhash64 sha sha2 add_months",
    "date_format date_from_unix_date dayofweek from_unixtime from_utc_timestamp to_utc_timestamp make_timestamp",
    "make_interval months_between next_day timestamp_seconds timestamp_millis timestamp_micros to_unix_timestamp",
    "unix_date unix_timestamp window current_timezone approx_count_distinct approx_percentile percentile",
    "percentile_approx collect_list collect_set count_if first first_value kurtosis last max_by min_by skewness",
    "bool_and some array_contains array_distinct array_except array_intersect array_join array_max array_min",
    "array_position array_remove array_repeat array_sort array_union arrays_overlap arrays_zip concat_ws element_at",
    "exists explode explode_outer posexplode posexplode_outer inline inline_outer stack filter flatten forall",
    "aggregate reduce transform zip_with map map_concat map_entries map_filter map_from_arrays map_from_entries",
    "map_keys map_values named_struct struct sequence shuffle size slice sort_array transform_keys transform_values",
    "from_json get_json_object json_object_keys json_tuple schema_of_json to_json str_to_map typeof range try_divide",
    "try_add try_subtract try_multiply try_to_number try_to_timestamp timestampadd timestampdiff grouping_id",
)

_TRINO: Final = names(
    "try is_nan is_finite is_infinite nan infinity rand random codepoint chr levenshtein_distance hamming_distance",
    "normalize split split_to_map regexp_extract regexp_extract_all regexp_split from_base to_base from_base64",
    "to_base64 from_hex to_utf8 from_utf8 sha512 xxhash64 crc32 from_unixtime to_unixtime from_iso8601_date",
    "from_iso8601_timestamp to_iso8601 date_format date_parse parse_datetime format_datetime at_timezone",
    "with_timezone current_timezone day_of_month day_of_week day_of_year last_day_of_month year_of_week",
    "human_readable_seconds approx_distinct approx_percentile approx_most_frequent arbitrary count_if geometric_mean",
    "histogram kurtosis skewness map_agg map_union max_by min_by multimap_agg checksum set_agg array_distinct",
    "array_except array_intersect array_join array_max array_min array_position array_remove array_sort array_union",
    "arrays_overlap combinations contains element_at filter flatten ngrams reduce repeat reverse sequence shuffle",
    "slice transform zip zip_with map map_concat map_entries map_filter map_from_entries map_keys map_values",
    "transform_keys transform_values all_match any_match none_match json_array_contains json_array_get",
    "json_extract_scalar json_format json_parse json_size typeof uuid is_json_scalar json_exists url_decode",
    "url_encode url_extract_host url_extract_path url_extract_query",
)

_CLICKHOUSE: Final = names(
    "today yesterday todate todatetime todatetime64 todate32 tostring toint8 toint16 toint32 toint64 touint8 touint16",
    "touint32 touint64 tofloat32 tofloat64 todecimal32 todecimal64 todecimal128 toyear toquarter tomonth toweek",
    "todayofmonth todayofweek todayofyear tohour tominute tosecond tostartofyear tostartofquarter tostartofmonth",
    "tostartofweek tostartofday tostartofhour tostartofminute tostartoffiveminutes tostartoffifteenminutes",
    "tostartofinterval tomonday toyyyymm toyyyymmdd tounixtimestamp formatdatetime parsedatetimebesteffort addyears",
    "addmonths addweeks adddays addhours addminutes addseconds subtractyears subtractmonths subtractweeks",
    "subtractdays subtracthours multiif ifnull assumenotnull tonullable isnull isnotnull empty notempty lowerutf8",
    "upperutf8 lengthutf8 substringutf8 splitbychar splitbystring arrayjoin arraymap arrayfilter arraysum arraycount",
    "arrayexists arrayall arraysort arrayreversesort arraydistinct arrayuniq arrayelement arrayconcat arrayenumerate",
    "arrayslice arraystringconcat has hasany hasall indexof tuple tupleelement map mapkeys mapvalues jsonextract",
    "jsonextractstring jsonextractint jsonextractfloat jsonextractbool jsonextractraw jsonextractarrayraw jsonhas",
    "jsonlength visitparamextractstring uniq uniqexact uniqcombined uniqhll12 grouparray groupuniqarray quantile",
    "quantiles quantileexact quantiletiming sumif countif avgif minif maxif uniqif uniqexactif anylast argmax argmin",
    "summap topk stddevpop stddevsamp varpop varsamp runningdifference rownumberinallblocks cityhash64 siphash64",
    "extractall match multisearchany positioncaseinsensitive replaceone replaceall replaceregexpone replaceregexpall",
    "domain topleveldomain protocol urlpath intdiv modulo plus minus multiply numbers zeros cutquerystring",
    "generateuuidv4 rand rand32 rand64 roundtoexp2 floor tolowcardinality totypename",
)

_SQLITE: Final = names(
    "ifnull iif glob likelihood likely unlikely printf quote random typeof unicode total group_concat changes",
    "julianday strftime datetime unixepoch timediff json jsonb json_insert json_patch json_remove json_replace",
    "json_set json_type json_valid json_quote json_group_array json_group_object json_each json_tree",
    "json_error_position sign bm25 highlight snippet",
)

_REDSHIFT: Final = names(
    "nvl nvl2 decode getdate sysdate dateadd datediff months_between add_months next_day len charindex strtol ilike",
    "json_extract_path_text json_extract_array_element_text json_parse json_serialize is_valid_json approximate",
    "ratio_to_report approx_count_distinct convert_timezone func_sha1 sha2 regexp_substr bttext_pattern_cmp isnull",
    "trunc",
)

_ADDED: Final = {
    "postgres": _POSTGRES,
    "redshift": _POSTGRES | _REDSHIFT,
    "materialize": _POSTGRES,
    "risingwave": _POSTGRES,
    "duckdb": _DUCKDB,
    "mysql": _MYSQL,
    "singlestore": _MYSQL,
    "doris": _MYSQL,
    "starrocks": _MYSQL,
    "tsql": _TSQL,
    "fabric": _TSQL,
    "oracle": _ORACLE,
    "snowflake": _SNOWFLAKE,
    "bigquery": _BIGQUERY,
    "hive": _SPARK,
    "spark2": _SPARK,
    "spark": _SPARK,
    "databricks": _SPARK,
    "presto": _TRINO,
    "trino": _TRINO,
    "athena": _TRINO,
    "clickhouse": _CLICKHOUSE,
    "sqlite": _SQLITE,
}


@cache
def allowed_functions(dialect: str) -> frozenset[str]:
    """Return the functions that an expression may call, in lower case. An unlisted dialect has the common ones."""
    return _COMMON | _ADDED.get(dialect, frozenset())


@cache
def allowed_table_functions(dialect: str) -> frozenset[str]:
    """Return the functions that may replace a table, in lower case."""
    return _DUCKDB_TABLES if dialect == "duckdb" else allowed_functions(dialect)


# --- constructs, by the names of sqlglot's nodes ----------------------------------------------------------------------

_CONSTRUCTS: Final = names(
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
_ADDED_CONSTRUCTS: Final = {
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
"""Allowed parts of a query. Missing: INTO, FOR UPDATE, SETTINGS, FORMAT, hints and options."""


@cache
def allowed_constructs(dialect: str) -> frozenset[str]:
    """Return the names of the nodes that a statement may consist of."""
    return _CONSTRUCTS | _ADDED_CONSTRUCTS.get(dialect, frozenset())
