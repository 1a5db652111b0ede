package demo

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle/llm"
)

// Limits of a calculation, because a model may request anything and the user should not have to
// wait for it.
const (
	maxLength   = 500  // characters
	maxDepth    = 50   // parentheses and signs
	maxExponent = 1000 // exponent
	maxBits     = 20000
)

type calculation struct {
	Expression string `json:"expression" jsonschema:"numbers with + - * / % ^ and parentheses, such as (2 + 3) * 4.5"`
}

// newCalculator returns a tool for arithmetic, which language models are bad at.
func newCalculator() *llm.Tool {
	return llm.NewTool("calculator", "Compute an arithmetic expression exactly.",
		func(_ context.Context, in calculation) (string, error) { return calculate(in.Expression) })
}

// calculate evaluates an expression with exact fractions. A result without a finite decimal
// form is rounded and marked as such.
func calculate(expression string) (string, error) {
	if len(expression) > maxLength {
		return "", fmt.Errorf("expression has %d characters, but the limit is %d", len(expression), maxLength)
	}
	p := parser{rest: []rune(expression)}
	v, err := p.sum()
	if err == nil && p.peek() != 0 {
		err = syntaxError("unexpected %q", string(p.peek()))
	}
	if err != nil {
		return "", fmt.Errorf("cannot compute %q: %w", expression, err)
	}
	if v.IsInt() {
		return v.Num().String(), nil
	}
	if digits, exact := v.FloatPrec(); exact && digits <= 20 {
		return v.FloatString(digits), nil
	}
	return strings.TrimRight(v.FloatString(12), "0") + " (rounded)", nil
}

// syntaxError reports what is wrong with an expression and what is allowed.
func syntaxError(format string, args ...any) error {
	return fmt.Errorf(format+": use numbers with + - * / %% ^ and parentheses", args...)
}

// parser parses an expression from left to right:
//
//	sum     = product { ("+" | "-") product }
//	product = signed { ("*" | "/" | "%") signed }
//	signed  = [ "-" | "+" ] signed | power
//	power   = atom [ "^" signed ]
//	atom    = number | "(" sum ")"
type parser struct {
	rest  []rune
	depth int
}

// peek returns the next character that is not a space, or 0 at the end.
func (p *parser) peek() rune {
	for len(p.rest) > 0 && unicode.IsSpace(p.rest[0]) {
		p.rest = p.rest[1:]
	}
	if len(p.rest) == 0 {
		return 0
	}
	return p.rest[0]
}

// take consumes and returns the next character if it is in chars. Otherwise, it returns 0.
func (p *parser) take(chars string) rune {
	r := p.peek()
	if r == 0 || !strings.ContainsRune(chars, r) {
		return 0
	}
	p.rest = p.rest[1:]
	switch r {
	case '×', '·':
		return '*'
	case '÷':
		return '/'
	case '−':
		return '-'
	}
	return r
}

// chain parses operands joined by operators of the same precedence.
func (p *parser) chain(operators string, operand func() (*big.Rat, error)) (*big.Rat, error) {
	left, err := operand()
	for err == nil {
		op := p.take(operators)
		if op == 0 {
			return left, nil
		}
		var right *big.Rat
		if right, err = operand(); err == nil {
			left, err = apply(op, left, right)
		}
	}
	return nil, err
}

func (p *parser) sum() (*big.Rat, error)     { return p.chain("+-−", p.product) }
func (p *parser) product() (*big.Rat, error) { return p.chain("*×·/÷%", p.signed) }

func (p *parser) signed() (*big.Rat, error) {
	p.depth++
	if p.depth > maxDepth {
		return nil, errors.New("nested too deeply")
	}
	defer func() { p.depth-- }()
	sign := p.take("+-−")
	if sign == 0 {
		return p.power()
	}
	v, err := p.signed()
	if err == nil && sign == '-' {
		v = new(big.Rat).Neg(v)
	}
	return v, err
}

func (p *parser) power() (*big.Rat, error) {
	base, err := p.atom()
	if err != nil || p.take("^") == 0 {
		return base, err
	}
	exponent, err := p.signed()
	if err != nil {
		return nil, err
	}
	return raise(base, exponent)
}

func (p *parser) atom() (*big.Rat, error) {
	if p.take("(") != 0 {
		v, err := p.sum()
		if err == nil && p.take(")") == 0 {
			err = syntaxError("missing closing parenthesis")
		}
		return v, err
	}
	r, n := p.peek(), 0
	for n < len(p.rest) && (p.rest[n] >= '0' && p.rest[n] <= '9' || p.rest[n] == '.') {
		n++
	}
	digits := string(p.rest[:n])
	p.rest = p.rest[n:]
	v, ok := new(big.Rat).SetString(digits)
	switch {
	case ok:
		return v, nil
	case n > 0:
		return nil, syntaxError("%s is not a number", digits)
	case r == 0:
		return nil, syntaxError("missing number at the end")
	}
	return nil, syntaxError("missing number before %q", string(r))
}

// apply computes one operation.
func apply(op rune, a, b *big.Rat) (*big.Rat, error) {
	v := new(big.Rat)
	switch {
	case op == '+':
		v.Add(a, b)
	case op == '-':
		v.Sub(a, b)
	case op == '*':
		v.Mul(a, b)
	case b.Sign() == 0:
		return nil, errors.New("division by zero")
	case op == '/':
		v.Quo(a, b)
	case !a.IsInt() || !b.IsInt():
		return nil, errors.New("% requires whole numbers")
	default:
		v.SetInt(new(big.Int).Rem(a.Num(), b.Num()))
	}
	return v, bounded(v)
}

// raise computes a power.
func raise(base, exponent *big.Rat) (*big.Rat, error) {
	if !exponent.IsInt() || !exponent.Num().IsInt64() || exponent.Num().CmpAbs(big.NewInt(maxExponent)) > 0 {
		return nil, fmt.Errorf("exponent must be a whole number from -%d to %d", maxExponent, maxExponent)
	}
	n := exponent.Num().Int64()
	if n < 0 {
		if base.Sign() == 0 {
			return nil, errors.New("division by zero")
		}
		base, n = new(big.Rat).Inv(base), -n
	}
	if int64(base.Num().BitLen()+base.Denom().BitLen())*n > 2*maxBits {
		return nil, errTooLarge
	}
	e := big.NewInt(n)
	v := new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), e, nil), new(big.Int).Exp(base.Denom(), e, nil))
	return v, bounded(v)
}

var errTooLarge = errors.New("numbers too large")

func bounded(v *big.Rat) error {
	if v.Num().BitLen()+v.Denom().BitLen() > maxBits {
		return errTooLarge
	}
	return nil
}
