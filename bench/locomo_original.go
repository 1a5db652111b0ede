package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// locomoSample is a conversation in the form of the authors' file. Its keys
// session_1, session_2, and so on contain the turns, and session_1_date_time
// contains the time.
type locomoSample struct {
	ID           string                     `json:"sample_id"`
	Conversation map[string]json.RawMessage `json:"conversation"`
	QA           []struct {
		Question string   `json:"question"`
		Evidence []string `json:"evidence"`
		Category int      `json:"category"`
		Answer   any      `json:"answer"` // a text or a number; adversarial questions lack it
	} `json:"qa"`
}

type locomoTurn struct {
	Speaker string `json:"speaker"`
	ID      string `json:"dia_id"`
	Text    string `json:"text"`
	Caption string `json:"blip_caption"`
}

// locomoCategories lists the category names by number.
var locomoCategories = map[int]string{1: "multi", 2: "temporal", 3: "open", 4: "single", 5: "adversarial"}

const (
	locomoTime = "3:04 pm on 2 January, 2006"
	turnTime   = 20 * time.Second // between two turns, whose times are unknown
)

func convertLocomo(samples []locomoSample) ([]conversation, error) {
	var out []conversation
	for _, s := range samples {
		c := conversation{User: s.ID}
		for n := 1; ; n++ {
			session := fmt.Sprint("session_", n)
			var when string
			if raw, ok := s.Conversation[session+"_date_time"]; !ok {
				break
			} else if err := json.Unmarshal(raw, &when); err != nil {
				return nil, fmt.Errorf("locomo: %s, %s: %w", s.ID, session, err)
			}
			at, err := time.Parse(locomoTime, when)
			if err != nil {
				return nil, fmt.Errorf("locomo: %s, %s: %w", s.ID, session, err)
			}
			var turns []locomoTurn
			if raw, ok := s.Conversation[session]; ok {
				if err := json.Unmarshal(raw, &turns); err != nil {
					return nil, fmt.Errorf("locomo: %s, %s: %w", s.ID, session, err)
				}
			}
			for i, t := range turns {
				text := t.Speaker + ": " + t.Text
				if t.Caption != "" {
					text += " [shares an image: " + t.Caption + "]"
				}
				c.Memories = append(c.Memories, turn{ID: t.ID, Text: text, Time: at.Add(time.Duration(i) * turnTime)})
			}
		}
		if len(c.Memories) == 0 {
			return nil, fmt.Errorf("locomo: %s has no sessions", s.ID)
		}
		c.Now = slices.MaxFunc(c.Memories, func(a, b turn) int { return a.Time.Compare(b.Time) }).Time
		c.ask(s)
		out = append(out, c)
	}
	return out, nil
}

// ask adds the questions whose evidence is in the conversation. Some entries of the
// file name several turns in one text.
func (c *conversation) ask(s locomoSample) {
	known := map[string]bool{}
	for _, m := range c.Memories {
		known[m.ID] = true
	}
	for _, qa := range s.QA {
		q := question{Text: qa.Question, Category: locomoCategories[qa.Category]}
		if qa.Answer != nil {
			q.Answer = fmt.Sprint(qa.Answer)
		}
		for _, e := range qa.Evidence {
			for _, id := range strings.FieldsFunc(e, func(r rune) bool { return r == ';' || r == ',' || r == ' ' }) {
				if known[id] && !slices.Contains(q.Gold, id) {
					q.Gold = append(q.Gold, id)
				}
			}
		}
		if len(q.Gold) > 0 {
			c.Questions = append(c.Questions, q)
		}
	}
}
