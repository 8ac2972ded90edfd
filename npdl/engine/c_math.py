"""The elementwise functions of the generated C code.

exp, log, tanh and erf are computed by short polynomials. They call no maths library, so a loop over
them becomes vector instructions. The last digit depends on whether the processor has a fused
multiply-add. Largest error: 2 units in the last place (tests/engine/test_c.py).

    exp     x = n log 2 + r;  exp(x) = 2^n (1 + r + r^2 Q(r)),  |r| <= log(2) / 2
    log     x = 2^e m;  log(x) = e log 2 + 2 r + r^3 L(r^2),  sqrt(1/2) <= m < sqrt(2),
            r = (m - 1) / (m + 1)
    tanh    x + x^3 T(x^2) below 0.64;  above, 1 - 2 / (exp(2 |x|) + 1)
    erf     x E(x^2) below 1;  above, 1 - exp(-x^2) G(t),  t = 1 / (1 + x / 2)

The polynomials Q, L, T, E and G interpolate at Chebyshev nodes. In the source, `{T}` is float or
double, and `{I}` is the integer type of the same size.
"""

FLOAT = {
    "T": "float", "I": "int32_t", "s": "f", "magic": "12582912.0f",
    "log2e": "1.44269504088896341f", "ln2_hi": "0.693359375f", "ln2_lo": "-2.12194440e-4f",
    "mantissa": 23, "bias": 127, "low": "-110.0f", "high": "100.0f", "tiny": "1.17549435e-38f",
    "lift": "8388608.0f", "half": "0x3f3504f3",
    "Q": (0.5, 0.16666576845993977, 0.04166655443768594, 0.008363202971575855,
          0.0013926213466332444),
    "TANH": (-0.3333333312343919, 0.133332963528113, -0.053957595132456244, 0.02175570034585329,
             -0.008301695360635958, 0.0022460036855930367),
    "LOG": (0.6666668503957585, 0.3998878056602152, 0.29579949392001176),
}
DOUBLE = {
    "T": "double", "I": "int64_t", "s": "d", "magic": "6755399441055744.0",
    "log2e": "1.44269504088896341", "ln2_hi": "0.693147180369123816490",
    "ln2_lo": "1.90821492927058770002e-10", "mantissa": 52, "bias": 1023, "low": "-800.0",
    "high": "800.0", "tiny": "2.2250738585072014e-308", "lift": "4503599627370496.0",
    "half": "0x3fe6a09e667f3bcd",
    "Q": (0.5, 0.16666666666666669, 0.04166666666662399, 0.008333333333330051,
          0.0013888888917281794, 0.00019841269863105968, 2.480152119021773e-05,
          2.7557268378684192e-06, 2.7620138719733994e-07, 2.5100424157005067e-08),
    "TANH": (-0.3333333333333333, 0.1333333333333286, -0.05396825396770339, 0.021869488510927782,
             -0.008863234931023884, 0.0035921196181059045, -0.0014557589970229322,
             0.0005895797741135292, -0.00023733530872779266, 9.207182073834182e-05,
             -3.0650442181390976e-05, 6.223438646457427e-06),
    "LOG": (0.6666666666666666, 0.4000000000000088, 0.28571428570803614, 0.22222222391713917,
            0.18181795640132906, 0.15386239702814658, 0.13268773138656886, 0.13086626147840102),
}
ERF_SMALL = (1.1283791670955126, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777,
             0.0052239776071164225, -0.0008548325975389692, 0.00012055294904839707,
             -1.492473690741966e-05, 1.6447424703317362e-06, -1.6208483801871705e-07,
             1.3720064546777686e-08, -7.795898827002142e-10)
ERF_LARGE = (0.2214295402299318, 0.7770891265969198, 0.888435542596203, 0.6180783702414044,
             0.10464967652779404, -0.20586174236040428, -0.08977886869684613, 0.1162138167632501,
             0.046072947052449825, -0.09475504141704388, -0.003821523760261688, 0.08180581174693825,
             -0.04019389745415357, -0.053626788346919536, 0.07629064767929084,
             0.007900644479126367, -0.07440021243346044)
ERF_MIDDLE = 0.4583333333333333

COMMON = """
static inline {I} bits_{s}({T} x) {{ {I} i; __builtin_memcpy(&i, &x, sizeof i); return i; }}
static inline {T} real_{s}({I} i) {{ {T} x; __builtin_memcpy(&x, &i, sizeof x); return x; }}
static inline {T} power_of_two_{s}({I} n) {{ return real_{s}((n + {bias}) << {mantissa}); }}
/* exp(r) - 1 and n, for x = n log 2 + r */
static inline {T} reduce_{s}({T} x, {I} *n) {{
  {T} t = x * {log2e} + {magic}, k = t - {magic};
  *n = bits_{s}(t) - bits_{s}({magic});
  {T} r = (x - k * {ln2_hi}) - k * {ln2_lo};
  return r + r * r * ({Q});
}}
static inline {T} exp_{s}({T} x) {{
  {I} n; {T} y = x > {high} ? {high} : x; y = y < {low} ? {low} : y;
  {T} p = 1 + reduce_{s}(y, &n);
  {I} m = n / 2;
  return p * power_of_two_{s}(m) * power_of_two_{s}(n - m);
}}
static inline {T} tanh_{s}({T} x) {{
  {T} a = x < 0 ? -x : x, b = a > 22 ? 22 : a, z = b * b;
  {I} n; {T} e = (1 + reduce_{s}(b + b, &n)) * power_of_two_{s}(n);
  {T} y = b < ({T})0.64 ? b + b * z * ({TANH}) : 1 - 2 / (e + 1);
  return x < 0 ? -y : y;
}}
static inline {T} log_{s}({T} x) {{
  {T} y = x < {tiny} ? x * {lift} : x;
  {I} i = bits_{s}(y), e = (i - {half}) >> {mantissa};
  {T} f = real_{s}(i - (e << {mantissa})) - 1, r = f / (2 + f), z = r * r;
  {T} k = ({T})e - (x < {tiny} ? {mantissa} : 0);
  {T} answer = 2 * r + (r * z * ({LOG}) + k * {ln2_lo}) + k * {ln2_hi};
  answer = x > 0 ? answer : (x == 0 ? -({T})INFINITY : ({T})NAN);
  return x < ({T})INFINITY ? answer : x;
}}
"""
ERF = """
static inline double erf_d(double x) {{
  double a = x < 0 ? -x : x; a = a > 6 ? 6 : a;
  double z = a * a, t = 1 / (1 + 0.5 * a) - {middle};
  double y = a < 1 ? a * ({small}) : 1 - exp_d(-z) * ({large});
  return x < 0 ? -y : (x != x ? x : y);
}}
static inline float erf_f(float x) {{ return (float)erf_d(x); }}
"""

TYPES = {"float32": "float", "float64": "double", "bool": "uint8_t", "int8": "int8_t",
         "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t"}
# Elementwise operations in C. 1.0 is a double, as an integer division by 0 would end the process.
# {s} is the suffix of functions of math.h, {t} of the functions above.
EXPRESSIONS = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}",
    "negative": "-{0}", "positive": "{0}", "square": "{0} * {0}", "reciprocal": "1.0 / {0}",
    "sqrt": "sqrt{s}({0})", "absolute": "({0} > 0 ? {0} : 0 - {0})",
    "sign": "({0} > 0 ? 1 : {0} < 0 ? -1 : {0})",
    "exp": "exp_{t}({0})", "log": "log_{t}({0})", "tanh": "tanh_{t}({0})", "erf": "erf_{t}({0})",
    "maximum": "(({0} > {1} || {0} != {0}) ? {0} : {1})",
    "minimum": "(({0} < {1} || {0} != {0}) ? {0} : {1})",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "less": "{0} < {1}",
    "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
    "logical_and": "({0} && {1})", "logical_or": "({0} || {1})", "logical_not": "!{0}",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "invert": "~{0}",
    "isnan": "{0} != {0}", "isfinite": "({0} - {0} == 0)",
    "isinf": "({0} == {0} && {0} - {0} != 0)",
    "where": "({0} ? {1} : {2})", "copy": "{0}",
}


def polynomial_expression(coefficients, variable, suffix=""):
    """Return a polynomial in `variable` as a C expression; `coefficients` begin with x^0."""
    text = f"{coefficients[-1]!r}{suffix}"
    for c in coefficients[-2::-1]:
        text = f"{c!r}{suffix} + {variable} * ({text})"
    return text


def generate_math_functions():
    """Return the C source of exp, log, tanh and erf, for float and for double."""
    text = ""
    for values, suffix in ((FLOAT, "f"), (DOUBLE, "")):
        text += COMMON.format(**values | {
            name: polynomial_expression(values[name], x, suffix)
            for name, x in (("Q", "r"), ("TANH", "z"), ("LOG", "z"))})
    return text + ERF.format(middle=ERF_MIDDLE, small=polynomial_expression(ERF_SMALL, "z"),
                             large=polynomial_expression(ERF_LARGE, "t"))
