package demo

import (
	"strings"
	"testing"
)

func TestCalculatorComputesExactly(t *testing.T) {
	for expression, want := range map[string]string{
		"2 + 3 * 4":            "14",
		"(2 + 3) * 4":          "20",
		"0.1 + 0.2":            "0.3",
		"2^64":                 "18446744073709551616",
		"2^3^2":                "512",
		"-2^2":                 "-4",
		"2^-2":                 "0.25",
		"2--2":                 "4",
		"7 % 4":                "3",
		"-7 % 4":               "-3",
		"1/3":                  "0.333333333333 (rounded)",
		"6 ÷ 4 × 2 − 1":        "2",
		" 5 ":                  "5",
		".5 * 4":               "2",
		"1 / 3 * 3":            "1",
		"(((((1)))))":          "1",
		"1000000 * 1000000.50": "1000000500000",
	} {
		got, err := calculate(expression)
		if err != nil {
			t.Error(err)
		}
		diff(t, expression+" = "+got, expression+" = "+want)
	}
}

func TestCalculatorExplainsErrors(t *testing.T) {
	const use = ": use numbers with + - * / % ^ and parentheses"
	for expression, want := range map[string]string{
		"":                              `cannot compute "": missing number at the end` + use,
		"2 +":                           `cannot compute "2 +": missing number at the end` + use,
		"2 * (3":                        `cannot compute "2 * (3": missing closing parenthesis` + use,
		"2 3":                           `cannot compute "2 3": unexpected "3"` + use,
		"sqrt(2)":                       `cannot compute "sqrt(2)": missing number before "s"` + use,
		"1.2.3":                         `cannot compute "1.2.3": 1.2.3 is not a number` + use,
		"1 / (2 - 2)":                   `cannot compute "1 / (2 - 2)": division by zero`,
		"5 % 0":                         `cannot compute "5 % 0": division by zero`,
		"0^-1":                          `cannot compute "0^-1": division by zero`,
		"1.5 % 2":                       `cannot compute "1.5 % 2": % requires whole numbers`,
		"2^0.5":                         `cannot compute "2^0.5": exponent must be a whole number from -1000 to 1000`,
		"2^1001":                        `cannot compute "2^1001": exponent must be a whole number from -1000 to 1000`,
		"(2^1000)^1000":                 `cannot compute "(2^1000)^1000": numbers too large`,
		strings.Repeat("(", 51):         `cannot compute "` + strings.Repeat("(", 51) + `": nested too deeply`,
		strings.Repeat("1+", 250) + "1": `expression has 501 characters, but the limit is 500`,
	} {
		got, err := calculate(expression)
		if err == nil {
			t.Errorf("%s = %s", expression, got)
			continue
		}
		diff(t, err.Error(), want)
	}
}
