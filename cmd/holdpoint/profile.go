package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

func profileCommand(a *app) *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List profiles and who stands under them", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.profiles(c.Context(), "") }}
	show := &cobra.Command{Use: "show NAME", Short: "Show one profile, parameter by parameter", Args: oneArg("the name of a profile"),
		RunE: func(c *cobra.Command, args []string) error { return a.profiles(c.Context(), args[0]) }}
	set := &cobra.Command{Use: "set NAME [key=value ...]", Short: "Make a profile, or replace one that was made so; what is not said is as in the default profile",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("profile set needs a name")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.profileSet(c.Context(), args[0], args[1:]) }}
	remove := &cobra.Command{Use: "remove NAME", Short: "Drop a profile that nobody stands under", Args: oneArg("the name of a profile"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.profileSend(c.Context(), http.MethodDelete, "/v1/profiles/"+url.PathEscape(args[0]), nil, "Removed "+args[0]+".")
		}}
	var agent string
	use := &cobra.Command{Use: "use NAME --agent AGENT", Short: "Put an agent under a profile, from its next call on", Args: oneArg("the name of a profile"),
		RunE: func(c *cobra.Command, args []string) error {
			if agent == "" {
				return usagef("--agent is missing: the agent's name, or its token's id")
			}
			return a.profileSend(c.Context(), http.MethodPut, "/v1/profiles/"+url.PathEscape(args[0])+"/agents", map[string]any{"agent": agent}, agent+" stands under "+args[0]+" now.")
		}}
	use.Flags().StringVar(&agent, "agent", "", "the agent's name, or its token's id")
	return a.group("profile", "What callers may do, whatever they ask for", list, show, set, remove, use)
}

func (a *app) profileSend(ctx context.Context, method, path string, body any, said string) error {
	return a.asReviewer(ctx, "", func(c *client) error {
		raw, err := c.do(ctx, method, path, body, nil)
		if err != nil {
			return err
		}
		if a.json {
			a.printJSON(raw)
		} else {
			fmt.Fprintln(a.Out, line(said))
		}
		return nil
	})
}

// profileSet takes switches and limits as words: allow_delete=false max_change=1000.
// Lists are written with commas, arguments that win over the call's as JSON.
func (a *app) profileSet(ctx context.Context, name string, words []string) error {
	body := map[string]any{"name": name}
	for _, w := range words {
		key, text, ok := strings.Cut(w, "=")
		if !ok {
			return usagef("%q is no key=value", w)
		}
		v, err := op.ParseJSON([]byte(`{"v":` + text + `}`))
		switch {
		case key == "roots":
			body[key] = strings.Split(text, ",")
		case key == "about" || key == "mode" || key == "max_timeout" || err != nil:
			body[key] = text
		default:
			body[key] = v["v"]
		}
	}
	return a.profileSend(ctx, http.MethodPut, "/v1/profiles", body, "Kept the profile "+name+".")
}

func (a *app) profiles(ctx context.Context, only string) error {
	return a.asReviewer(ctx, "", func(c *client) error {
		var got struct {
			Profiles []map[string]any `json:"profiles"`
		}
		raw, err := c.get(ctx, "/v1/profiles", &got)
		if err != nil {
			return err
		}
		if only == "" {
			if a.json {
				a.printJSON(raw)
				return nil
			}
			var rows [][]string
			for _, p := range got.Profiles {
				rows = append(rows, []string{line(str(p["name"])), line(str(p["from"])), "mode " + line(str(p["mode"])), "approval " + line(str(p["require_approval"])), line(joined(" ", str(p["about"]), labeled("used by", listed(p["agents"]))))})
			}
			table(a.Out, rows)
			return nil
		}
		for _, p := range got.Profiles {
			if p["name"] == only {
				return a.profileShow(p)
			}
		}
		return op.Fail(op.NotFound, "no profile has this name").In("name").Do("profile list names them")
	})
}

func (a *app) profileShow(p map[string]any) error {
	if a.json {
		a.printJSON(p)
		return nil
	}
	var rows [][]string
	o := op.Object(p)
	for _, k := range slices.Sorted(maps.Keys(o)) {
		v := str(o[k])
		if _, list := o[k].([]any); list {
			v = listed(o[k])
		} else if set, ok := o[k].(map[string]any); ok {
			v = ""
			for _, name := range slices.Sorted(maps.Keys(set)) {
				v += fmt.Sprintf("%s %v ", name, set[name])
			}
		}
		rows = append(rows, []string{line(k), line(v)})
	}
	table(a.Out, rows)
	return nil
}

func str(v any) string { return fmt.Sprint(v) }

func listed(v any) string {
	list, _ := v.([]any)
	words := make([]string, len(list))
	for i, e := range list {
		words[i] = str(e)
	}
	return strings.Join(words, " ")
}
