package pulsar

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// ErrSchemaNotFound: the topic has no schema of that version.
var ErrSchemaNotFound = errors.New("schema not found")

// Schema is one version of a topic's schema, as the registry keeps it.
type Schema struct {
	Name       string
	Type       pulsarpb.Schema_Type
	Data       []byte
	Properties map[string]string
}

// GetSchema fetches one version of a topic's schema, the newest for a nil
// version, and the version it has. All segments of a scalable topic share one
// registry entry (broker 5.0.1, observed). Any broker answers.
func (c *Client) GetSchema(ctx context.Context, topic string, version []byte) (Schema, []byte, error) {
	if err := checkTopic(topic); err != nil {
		return Schema{}, nil, err
	}
	conn, err := c.control(ctx)
	if err != nil {
		return Schema{}, nil, fmt.Errorf("schema of %s: %w", topic, err)
	}
	reply, err := conn.request(ctx, c.opts.OperationTimeout, pulsarpb.BaseCommand_GET_SCHEMA_RESPONSE, nil, func(id uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_GET_SCHEMA)
		cmd.GetSchema = &pulsarpb.CommandGetSchema{RequestId: proto.Uint64(id), Topic: proto.String(topic), SchemaVersion: version}
		return cmd
	})
	if errors.Is(err, ErrTopicNotFound) { // the broker has one code for both
		err = fmt.Errorf("%w: %s", ErrSchemaNotFound, err.Error())
	}
	if err != nil {
		return Schema{}, nil, fmt.Errorf("schema of %s: %w", topic, err)
	}
	r := reply.GetGetSchemaResponse()
	s := Schema{Name: r.GetSchema().GetName(), Type: r.GetSchema().GetType(), Data: r.GetSchema().GetSchemaData(), Properties: map[string]string{}}
	for _, kv := range r.GetSchema().GetProperties() {
		s.Properties[kv.GetKey()] = kv.GetValue()
	}
	return s, r.GetSchemaVersion(), nil
}

// GetOrCreateSchema registers a schema with a topic, at the topic's owner, and
// returns the version it has there. One that the topic's policy refuses is
// ErrIncompatibleSchema.
func (c *Client) GetOrCreateSchema(ctx context.Context, topic string, s Schema) (version []byte, err error) {
	if err := checkOpenable(topic); err != nil {
		return nil, err
	}
	conn, err := c.owner(ctx, topic, KindControl)
	if err != nil {
		return nil, fmt.Errorf("register schema of %s: %w", topic, err)
	}
	reply, err := conn.request(ctx, c.opts.OperationTimeout, pulsarpb.BaseCommand_GET_OR_CREATE_SCHEMA_RESPONSE, nil, func(id uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_GET_OR_CREATE_SCHEMA)
		cmd.GetOrCreateSchema = &pulsarpb.CommandGetOrCreateSchema{RequestId: proto.Uint64(id), Topic: proto.String(topic), Schema: s.wire()}
		return cmd
	})
	if err != nil {
		return nil, fmt.Errorf("register schema of %s: %w", topic, err)
	}
	return reply.GetGetOrCreateSchemaResponse().GetSchemaVersion(), nil
}

// wire writes the properties in the order of their keys: the registry compares
// schemas as bytes.
func (s *Schema) wire() *pulsarpb.Schema {
	w := &pulsarpb.Schema{Name: proto.String(s.Name), Type: s.Type.Enum(), SchemaData: s.Data}
	if w.SchemaData == nil {
		w.SchemaData = []byte{} // required
	}
	keys := make([]string, 0, len(s.Properties))
	for k := range s.Properties {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		w.Properties = append(w.Properties, &pulsarpb.KeyValue{Key: proto.String(k), Value: proto.String(s.Properties[k])})
	}
	return w
}
