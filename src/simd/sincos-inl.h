// cos and sin of a product, a vector at a time. Compiled once per SIMD target.
//
// 1. m f = p + e exactly (two-product).
// 2. k = the integer nearest to p / (pi/2), found by adding 1.5 * 2^52: |k| < 2^45, and |p - k pi/2| < pi/4 + 2^-6.
// 3. pi/2 = P1 + P2 + P3 + d, three doubles of 53 bits, |d| < 2^-163.
//    p - k P1 is exact: p and k P1 are multiples of 2^-53 (of 2^-52 for p >= 1) and their difference is below 1, so it has a
//    double. k P2 = t + u exactly; |t| < 2^-8, |u| < 2^-62.
// 4. (p - k P1) + e - t is summed by two two-sums, exactly: s + e1 + e2. What is left, e1 + e2 - u - k P3, is rounded. When the
// sum
//    cancels, |e1|, |e2| and |u| are at most 2^-62 (2^-76 for |m f| <= 2^31), so the rounding is below 2^-113 (2^-127), and k d
//    below 2^-118 (2^-132). The nearest that m f comes to a multiple of pi/2: m has 32 bits and f 53, so a binade holds 2^85
//    products and the closest of them lies around 2^-85 off. A float's half ulp of that is 2^-109: two (three) doubles of pi/2
//    would not do, three and this sum do.
// 5. Taylor polynomials on [-0.8, 0.8], truncated below 2^-54 relative to the leading term.
//
// Every operation is an IEEE one that all targets share, and products are never contracted into sums (-ffp-contract=off), so
// the result does not depend on the target; a target without FMA forms the two-products by Dekker's splitting, which is exact
// as well.
#if defined(ROPEWALK_SIMD_SINCOS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SIMD_SINCOS_INL_H_
#undef ROPEWALK_SIMD_SINCOS_INL_H_
#else
#define ROPEWALK_SIMD_SINCOS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ropewalk::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a * b = product + error, exactly.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void two_product([[maybe_unused]] D d, V a, V b, V& product, V& error) {
  product = hn::Mul(a, b);
#if HWY_NATIVE_FMA
  error = hn::MulSub(a, b, product);
#else
  const V splitter = hn::Set(d, 134217729.0);  // 2^27 + 1: Dekker 1971
  const V sa = hn::Mul(a, splitter), sb = hn::Mul(b, splitter);
  const V a1 = hn::Sub(sa, hn::Sub(sa, a)), b1 = hn::Sub(sb, hn::Sub(sb, b));
  const V a2 = hn::Sub(a, a1), b2 = hn::Sub(b, b1);
  error = hn::Add(hn::Add(hn::Sub(hn::Mul(a1, b1), product), hn::Mul(a1, b2)), hn::Mul(a2, b1));
  error = hn::Add(error, hn::Mul(a2, b2));
#endif
}

// a + b = sum + error, exactly (Knuth).
template <class V>
HWY_INLINE void two_sum(V a, V b, V& sum, V& error) {
  sum = hn::Add(a, b);
  const V bb = hn::Sub(sum, a);
  error = hn::Add(hn::Sub(a, hn::Sub(sum, bb)), hn::Sub(b, bb));
}

// Horner without FMA, so that all targets round alike.
template <class D, class V = hn::Vec<D>, size_t kTerms>
HWY_INLINE V polynomial(D d, V z, const double (&coefficients)[kTerms]) {
  V sum = hn::Set(d, coefficients[kTerms - 1]);
  for (size_t i = kTerms - 1; i-- > 0;) sum = hn::Add(hn::Mul(sum, z), hn::Set(d, coefficients[i]));
  return sum;
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void sincos_product(D d, V m, V f, V& cos, V& sin) {
  const hn::RebindToUnsigned<D> du;
  V p, e;
  two_product(d, m, f, p, e);

  const V magic = hn::Set(d, 0x1.8p52);
  const V shifted = hn::Add(hn::Mul(p, hn::Set(d, 0x1.45f306dc9c883p-1)), magic);
  const auto quadrant = hn::BitCast(du, shifted);  // its low bits are k's, in two's complement
  const V k = hn::Sub(shifted, magic);

  const V p1 = hn::Set(d, 0x1.921fb54442d18p+0);
#if HWY_NATIVE_FMA
  const V r = hn::NegMulAdd(k, p1, p);
#else
  V k1, k1_error;
  two_product(d, k, p1, k1, k1_error);
  const V r = hn::Sub(hn::Sub(p, k1), k1_error);
#endif
  V t, u, s, e1, e2, hi, lo;
  two_product(d, k, hn::Set(d, 0x1.1a62633145c07p-54), t, u);
  two_sum(r, e, s, e1);
  two_sum(s, hn::Neg(t), s, e2);
  const V rest = hn::Sub(hn::Add(e1, e2), hn::Add(u, hn::Mul(k, hn::Set(d, -0x1.f1976b7ed8fbcp-110))));
  two_sum(s, rest, hi, lo);

  static constexpr double kSin[] = {-1.0 / 6,
                                    1.0 / 120,
                                    -1.0 / 5040,
                                    1.0 / 362880,
                                    -1.0 / 39916800.0,
                                    1.0 / 6227020800.0,
                                    -1.0 / 1307674368000.0,
                                    1.0 / 355687428096000.0};
  static constexpr double kCos[] = {1.0 / 24,
                                    -1.0 / 720,
                                    1.0 / 40320,
                                    -1.0 / 3628800,
                                    1.0 / 479001600.0,
                                    -1.0 / 87178291200.0,
                                    1.0 / 20922789888000.0,
                                    -1.0 / 6402373705728000.0};
  const V one = hn::Set(d, 1.0);
  const V z = hn::Mul(hi, hi);
  const V half_z = hn::Mul(z, hn::Set(d, 0.5));
  const V w = hn::Sub(one, half_z);
  const V lo_cos = hn::Mul(lo, w);
  const V sin_r = hn::Add(hi, hn::Add(hn::Mul(hn::Mul(hi, z), polynomial(d, z, kSin)), lo_cos));
  const V tail = hn::Sub(hn::Mul(hn::Mul(z, z), polynomial(d, z, kCos)), hn::Mul(hi, lo));
  const V cos_r = hn::Add(w, hn::Add(hn::Sub(hn::Sub(one, w), half_z), tail));

  const auto swap = hn::RebindMask(d, hn::TestBit(quadrant, hn::Set(du, 1)));
  const auto sign_bit = hn::Set(du, uint64_t{1} << 63);
  const auto sin_sign = hn::And(hn::ShiftLeft<62>(quadrant), sign_bit);
  const auto cos_sign = hn::And(hn::ShiftLeft<62>(hn::Add(quadrant, hn::Set(du, 1))), sign_bit);
  sin = hn::Xor(hn::IfThenElse(swap, cos_r, sin_r), hn::BitCast(d, sin_sign));
  cos = hn::Xor(hn::IfThenElse(swap, sin_r, cos_r), hn::BitCast(d, cos_sign));
}

}  // namespace ropewalk::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
