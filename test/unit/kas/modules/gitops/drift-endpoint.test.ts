import { create, type MessageInitShape } from '@bufbuild/protobuf'
import t from 'tap'
import { driftEndpoint } from '../../../../../src/kas/modules/gitops/drift-endpoint.ts'
import type { OwnRequest } from '../../../../../src/kas/own-endpoint.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { DriftResponseSchema } from '../../../../../src/proto/gen/gitops_drift_pb.ts'

type What = NonNullable<MessageInitShape<typeof DriftResponseSchema>['what']>

const object = (name: string, before = '"a"'): What => ({
  case: 'object',
  value: {
    object: { key: { kind: 'ConfigMap', namespace: 'shop', name }, kind: 'drifted' },
    field: [{ path: '.data.a', kind: 'changed', before, after: '"b"' }],
  },
})
const end: What = { case: 'end', value: { objects: 3, compared: 3, atMs: 7n, mode: 'correct' } }

/** Asks the endpoint about an agent that answers with these messages. */
async function ask(whats: readonly What[], query: Record<string, readonly string[]> = { source: ['42-7'] }) {
  const asked: object[] = []
  const { serve } = driftEndpoint({
    drift: async function* (_, question) {
      asked.push(question)
      for (const what of whats) yield create(DriftResponseSchema, { what })
    },
  })
  const { status, body } = await serve({ query: new Map(Object.entries(query)) } as unknown as OwnRequest)
  return { asked, status, json: JSON.parse(Buffer.from(body).toString()) }
}

t.test('objects and the end are one answer', async (t) => {
  const { asked, status, json } = await ask([object('one'), object('two'), end])
  t.strictSame(asked, [{ source: '42-7', scan: false }])
  t.equal(status, 200)
  t.match(json, {
    source: '42-7',
    scan: false,
    differing: [
      { object: { key: { name: 'one' }, kind: 'drifted' }, field: [{ path: '.data.a', before: '"a"', after: '"b"' }] },
      { object: { key: { name: 'two' } } },
    ],
    objects: 3,
    compared: 3,
    withheld: 0,
    cut: 0,
    problem: '',
    at_ms: '7',
    mode: 'correct',
  })
})

t.test('an answer that would be too long counts the objects that it leaves out', async (t) => {
  const { json } = await ask([...['a', 'b', 'c', 'd'].map((name) => object(name, 'x'.repeat(1024 ** 2))), end])
  t.equal(json.differing.length, 2)
  t.equal(json.cut, 2)
})

t.test('an agent that does not end its answer, or sends too much, is no answer', async (t) => {
  await t.rejects(ask([object('one')]), { code: 'INVALID_MESSAGE' })
  await t.rejects(ask([...Array(101).fill(object('one')), end]), { code: 'INVALID_MESSAGE' })
})

t.test('messages without content count too, and a count that is full stays one', async (t) => {
  const nothing = { case: undefined } as unknown as What
  await t.rejects(ask([...Array(101).fill(nothing), end]), { code: 'INVALID_MESSAGE' })
  const large = Array(4).fill(object('a', 'x'.repeat(1024 ** 2)))
  const { json } = await ask([...large, { case: 'end', value: { cut: 2 ** 32 - 1 } }])
  t.equal(json.cut, 2 ** 32 - 1)
})

t.test('bad input is named', async (t) => {
  const wrong: readonly (readonly [Record<string, string[]>, RegExp])[] = [
    [{}, /source: allowed is the id/],
    [{ source: ['platform/shop'] }, /source: allowed is the id/],
    [{ source: ['42-7', '42-8'] }, /source stands more than once/],
    [{ source: ['42-7'], scan: ['yes'] }, /scan: allowed is true or false/],
    [{ source: ['42-7'], x: ['1'] }, /the parameter "x" is not known/],
  ]
  for (const [query, text] of wrong) {
    const error = await ask([end], query).catch((error: unknown) => KasError.from(error))
    t.match(error, { code: 'BAD_REQUEST', message: text })
  }
})
