package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type (
	order struct {
		ID    int `json:"id"`
		Cents int `json:"cents"`
		Days  int `json:"days" jsonschema:"how long the delivery took"`
	}
	orderID struct {
		ID int `json:"id"`
	}
	refund struct {
		ID    int `json:"id"`
		Cents int `json:"cents"`
	}
)

// newShop returns the tools of a shop with 20 orders. They report what they do, several of
// them at the same time.
func newShop(out io.Writer) []*llm.Tool {
	var mu sync.Mutex
	report := func(format string, args ...any) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(out, format, args...)
		return err
	}
	return []*llm.Tool{
		llm.NewTool("list_orders", "Lists the numbers of all orders.", func(context.Context, struct{}) ([]int, error) {
			ids := make([]int, 20)
			for i := range ids {
				ids[i] = i + 1
			}
			return ids, nil
		}),
		llm.NewTool("get_order", "Returns an order.", func(_ context.Context, in orderID) (order, error) {
			return order{in.ID, 1000 * in.ID, 2 + in.ID%9/2}, report("read order %d\n", in.ID)
		}),
		llm.NewTool("refund", "Refunds a part of an order.", func(_ context.Context, in refund) (string, error) {
			return "done", report("refunded %d cents of order %d\n", in.Cents, in.ID)
		}),
	}
}

// script is what a model writes with the declarations of the tools in its prompt.
const script = `
const ids = await tools.list_orders({});
const orders = await Promise.all(ids.map(id => tools.get_order({id})));
const late = orders.filter(o => o.days > 5);
console.log(late.length, "of", orders.length, "orders were late");
let cents = 0;
for (const o of late) {
	const refund = Math.round(o.cents / 10);
	try {
		await tools.refund({id: o.id, cents: refund});
		cents += refund;
	} catch (e) {
		console.log("order", o.id, "was not refunded");
	}
}
return "Refunded " + cents + " cents.";`

// offline plays a model that solves the task with one script, and then repeats its result.
var offline = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	if last := r.Messages[len(r.Messages)-1]; last.Role == llm.RoleTool {
		return llm.Assistant(last.Text()), nil
	}
	return llm.Assistant("", llmtest.ToolCall("run_code", map[string]string{"code": script})), nil
})
