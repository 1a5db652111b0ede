package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/a2aproject/a2a-go/a2a"

	"github.com/treadle-go/treadle/ledger"
)

// extendedCard returns the card for an authenticated caller. Without Auth, the card does not announce
// it.
func (x *a2aCall) extendedCard(json.RawMessage) (any, error) {
	if !x.s.authenticates() {
		return nil, &rpcError{Code: codeNoCard, Message: "The agent has no extended card"}
	}
	return cardOf(x.call, x.a, true), nil
}

// card returns the agent card of an assistant, which the path or a parameter names. Without a
// name, it is the card of the only assistant that the caller may see.
func (s a2aAPI) card(c *call) error {
	name := c.r.PathValue("assistant_id")
	if name == "" {
		name = c.query().Get("assistant_id")
	}
	f, err := c.allow(map[string]any{"assistant_id": name})
	if err != nil {
		return err
	}
	var a *ledger.Assistant
	if name == "" {
		a, err = s.only(c, f)
	} else {
		a, err = s.assistants().find(c, name, f)
	}
	if err != nil {
		return err
	}
	v1, err := a2aVersion(c.r, "/")
	if err != nil {
		return fail(http.StatusBadRequest, "%v", err)
	}
	raw, err := json.Marshal(cardOf(c, a, v1))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	h := c.w.Header()
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	h.Set("Last-Modified", a.Updated.UTC().Format(http.TimeFormat))
	h.Set("Cache-Control", "private, max-age=60")
	h.Set("Vary", "A2A-Version, Authorization")
	if c.r.Header.Get("If-None-Match") == h.Get("ETag") {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.json(http.StatusOK, json.RawMessage(raw))
}

// only returns the only assistant that matches f.
func (s a2aAPI) only(c *call, f *ledger.Filter) (*ledger.Assistant, error) {
	q := &ledger.AssistantQuery{Page: ledger.Page{Limit: 2}}
	if f != nil {
		q.Filter = *f
	}
	found, _, err := s.ledger.Assistants(c.r.Context(), q)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fail(http.StatusBadRequest, "assistant_id: required unless exactly one assistant is visible: use the address /a2a/{assistant_id}")
	}
	return found[0], nil
}

func (x *a2aCall) card(json.RawMessage) (any, error) { return cardOf(x.call, x.a, false), nil }

// cardJSON is an agent card of version 0.3 with the field that clients of version 1.0 use to
// find the address.
type cardJSON struct {
	a2a.AgentCard
	SupportedInterfaces []cardInterface           `json:"supportedInterfaces"`
	SecuritySchemes     map[string]SecurityScheme `json:"securitySchemes,omitempty"`
	Security            []map[string][]string     `json:"security,omitempty"`
}

// cardV1 is an agent card of version 1.0.
type cardV1 struct {
	Name                string           `json:"name"`
	Description         string           `json:"description"`
	Version             string           `json:"version"`
	SupportedInterfaces []cardInterface  `json:"supportedInterfaces"`
	Capabilities        map[string]bool  `json:"capabilities"`
	DefaultInputModes   []string         `json:"defaultInputModes"`
	DefaultOutputModes  []string         `json:"defaultOutputModes"`
	Skills              []a2a.AgentSkill `json:"skills"`

	SecuritySchemes map[string]any   `json:"securitySchemes,omitempty"`
	Security        []map[string]any `json:"securityRequirements,omitempty"`
}

type cardInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

// cardOf returns the card of an assistant. That of version 0.3 also names the interface for
// version 1.0.
func cardOf(c *call, a *ledger.Assistant, v1 bool) any {
	description := a.Name + " assistant"
	if a.Description != nil && *a.Description != "" {
		description = *a.Description
	}
	modes := []string{"application/json", "text/plain"}
	address := c.base() + "/a2a/" + a.ID.String()
	skills := []a2a.AgentSkill{{ID: a.ID.String() + "-main", Name: a.Name + " Capabilities", Description: description, Tags: []string{"assistant", "treadle"}, InputModes: modes, OutputModes: modes}}
	interfaces := []cardInterface{{address, string(a2a.TransportProtocolJSONRPC), "1.0"}}
	pushes, extended := !c.s.hooks.Disabled(), c.s.authenticates()
	var schemes map[string]SecurityScheme
	if c.s.o.Auth != nil {
		schemes = c.s.o.Auth.Schemes
	}
	if v1 {
		card := &cardV1{Name: a.Name, Description: description, Version: version(), SupportedInterfaces: interfaces,
			Capabilities:      map[string]bool{"streaming": true, "pushNotifications": pushes, "extendedAgentCard": extended},
			DefaultInputModes: modes, DefaultOutputModes: modes, Skills: skills, SecuritySchemes: map[string]any{}}
		for _, name := range slices.Sorted(maps.Keys(schemes)) {
			card.SecuritySchemes[name] = schemes[name].v1()
			card.Security = append(card.Security, map[string]any{"schemes": map[string]any{name: map[string]any{"list": []string{}}}})
		}
		return card
	}
	var security []map[string][]string
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		security = append(security, map[string][]string{name: {}})
	}
	return &cardJSON{SecuritySchemes: schemes, Security: security, AgentCard: a2a.AgentCard{Name: a.Name, Description: description, URL: address, Version: version(), ProtocolVersion: "0.3.0",
		PreferredTransport: a2a.TransportProtocolJSONRPC, Capabilities: a2a.AgentCapabilities{Streaming: true, PushNotifications: pushes}, DefaultInputModes: modes, DefaultOutputModes: modes, SupportsAuthenticatedExtendedCard: extended,
		Skills: skills}, SupportedInterfaces: interfaces}
}

// v1 returns a security scheme as version 1.0 has it: the key identifies its type.
func (s SecurityScheme) v1() map[string]any {
	fields := map[string]any{}
	for key, value := range map[string]string{"description": s.Description, "location": s.In, "name": s.Name, "scheme": s.Scheme, "bearerFormat": s.BearerFormat, "openIdConnectUrl": s.OpenIDConnectURL} {
		if value != "" {
			fields[key] = value
		}
	}
	kind := map[string]string{"apiKey": "apiKeySecurityScheme", "http": "httpAuthSecurityScheme", "openIdConnect": "openIdConnectSecurityScheme"}
	return map[string]any{kind[s.Type]: fields}
}
