import t from 'tap'
import { readValuesSchema } from '../../../../../../src/agentk/modules/gitops/render/values-schema.ts'

const read = (schema: object) => JSON.parse(readValuesSchema(JSON.stringify(schema)).text ?? 'null')

t.test('a schema without names is read as it is', async (t) => {
  const text =
    '{ "maximum": 9223372036854775807, "$ref":"#/$defs/a", "$defs": { "a": { "$anchor": "b", "$id": "#c" } } }'
  t.strictSame(readValuesSchema(text), { text })
})

t.test('names are left out, wherever a part of the schema has one', async (t) => {
  const url = 'http://127.0.0.1/a#b'
  t.strictSame(read({ $id: url, id: url, $ref: '#/x', x: {} }), { $ref: '#/x', x: {} })
  t.strictSame(read({ allOf: [{ not: { $id: url } }, { id: url }] }), { allOf: [{ not: {} }, {}] })
  t.strictSame(read({ properties: { const: { $id: url, type: 'string' }, id: { type: 'string' } } }), {
    properties: { const: { type: 'string' }, id: { type: 'string' } },
  })
  t.strictSame(readValuesSchema(`{"\\u0024id": "${url}"}`), { text: '{}' })
  t.strictSame(readValuesSchema(`{"__proto__": {"$id": "${url}"}}`), { text: '{"__proto__":{}}' })
  const values = { $id: 'a', const: { id: 'a' }, enum: [{ $id: url }], required: ['id'] }
  t.strictSame(
    read(values),
    { const: { id: 'a' }, enum: [{ $id: url }], required: ['id'] },
    'values that stand for themselves',
  )
})

t.test('what refers to its own part by place goes on doing so', async (t) => {
  const part = { $id: 'part.json', $defs: { b: {} }, items: { $ref: '#/$defs/b' }, not: { $ref: '#' } }
  const moved = { $defs: { b: {} }, items: { $ref: '#/%24defs/a~1~0%25/$defs/b' }, not: { $ref: '#/%24defs/a~1~0%25' } }
  t.strictSame(read({ $defs: { 'a/~%': part }, $ref: '#/$defs' }), { $defs: { 'a/~%': moved }, $ref: '#/$defs' })
  const old = { definitions: { a: { id: 'x', definitions: { b: {} }, items: { $ref: '#/definitions/b' } } } }
  const draft4 = { $schema: 'http://json-schema.org/draft-04/schema#', ...old }
  t.match(read(draft4), { definitions: { a: { items: { $ref: '#/definitions/a/definitions/b' } } } })
  t.match(read(old), { definitions: { a: { items: { $ref: '#/definitions/b' } } } }, 'later drafts have no such name')
  t.match(read({ $id: 'x', not: { $ref: '#named' } }), { not: { $ref: '#named' } })
})

t.test('what leads outside is refused', async (t) => {
  for (const schema of [{ $ref: 'a.json' }, { const: { $ref: 'http://a' } }, { $defs: { a: { $schema: 'http://a' } } }])
    t.match(readValuesSchema(JSON.stringify(schema)), { problem: /leads outside/ })
  t.match(readValuesSchema('{"a": '), { problem: 'the schema is no JSON' })
  t.match(readValuesSchema(`${'{"a":'.repeat(600)}1${'}'.repeat(600)}`), { problem: /more than 500/ })
})
