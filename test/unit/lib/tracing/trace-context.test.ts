import t from 'tap'
import { readTraceContext, withTraceHeaders, writeTraceContext } from '../../../../src/lib/tracing/trace-context.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const spanId = 'b7ad6b7169203331'

t.test('what a caller says is read', async (t) => {
  const read = (traceparent: string) => readTraceContext({ traceparent: [traceparent] })
  t.strictSame(read(`00-${traceId}-${spanId}-01`), { traceId, spanId, sampled: true, state: '' })
  t.match(read(`00-${traceId}-${spanId}-00`), { sampled: false })
  t.match(read(`00-${traceId}-${spanId}-02`), { sampled: false }, 'another flag')
  t.match(read(`00-${traceId}-${spanId}-03`), { sampled: true })
  t.match(read(`01-${traceId}-${spanId}-01-more`), { traceId }, 'a version to come may say more')
  const { state } = readTraceContext({ traceparent: [`00-${traceId}-${spanId}-01`], tracestate: ['a=1', 'b=2'] }) ?? {}
  t.equal(state, 'a=1,b=2')
})

t.test('what cannot be used begins a new trace', async (t) => {
  for (const [why, traceparent] of [
    ['nothing', []],
    ['two', [`00-${traceId}-${spanId}-01`, `00-${traceId}-${spanId}-01`]],
    ['joined by node', [`00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`]],
    ['a forbidden version', [`ff-${traceId}-${spanId}-01`]],
    ['upper case', [`00-${traceId.toUpperCase()}-${spanId}-01`]],
    ['no trace id', [`00-${'0'.repeat(32)}-${spanId}-01`]],
    ['no span id', [`00-${traceId}-${'0'.repeat(16)}-01`]],
    ['too short', [`00-${traceId.slice(1)}-${spanId}-01`]],
    ['more than version 00 has', [`00-${traceId}-${spanId}-01-more`]],
    ['no flags', [`00-${traceId}-${spanId}`]],
    ['blanks', [` 00-${traceId}-${spanId}-01`]],
  ] as const) {
    t.equal(readTraceContext({ traceparent }), undefined, why)
  }
})

t.test('a state that is too long is left out, its trace goes on', async (t) => {
  const long = { traceparent: [`00-${traceId}-${spanId}-01`], tracestate: [`a=${'x'.repeat(511)}`] }
  t.match(readTraceContext(long), { traceId, state: '' })
})

t.test('what is written is what was read, and takes the place of another’s', async (t) => {
  const headers = writeTraceContext({ traceId, spanId, sampled: false, state: 'a=1' })
  t.strictSame(headers, { traceparent: [`00-${traceId}-${spanId}-00`], tracestate: ['a=1'] })
  t.match(readTraceContext(headers), { traceId, spanId, sampled: false, state: 'a=1' })
  const stateless = writeTraceContext({ traceId, spanId, sampled: true, state: '' })
  t.strictSame(withTraceHeaders({ 'x-one': ['1'], traceparent: ['old'], tracestate: ['old=1'] }, stateless), {
    'x-one': ['1'],
    traceparent: [`00-${traceId}-${spanId}-01`],
  })
})
