import t from 'tap'
import {
  errorMessage,
  readViewsMessage,
  updateMessage,
} from '../../../../../../src/kas/modules/views/api/views-message.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'

const read = (message: unknown) => readViewsMessage(JSON.stringify(message))

t.test('what clients may say', async (t) => {
  const open = read({ type: 'open', id: 1, agent: '42', view: 'tree', scope: { namespaces: ['a'] }, later: true })
  t.match(open, { type: 'open', id: 1, agent: '42' })
  t.strictSame(
    open.type === 'open' && JSON.parse(String(open.query)),
    { view: 'tree', scope: { namespaces: ['a'] }, later: true },
    'what is asked for the agent checks',
  )
  t.match(open, { fresh: false })
  t.match(read({ type: 'open', id: 1, agent: '42', view: 'tree', fresh: true }), { fresh: true })
  const page = { type: 'page', id: 0, node: '', limit: 0 }
  t.strictSame(read(page), { ...page, offset: 0 })
  t.strictSame(read({ ...page, offset: 10_000 }), { ...page, offset: 10_000 })
  t.strictSame(read({ type: 'close', id: 7 }), { type: 'close', id: 7 })
})

t.test('what cannot be used, of a view that is known: that view is told', async (t) => {
  const cases: [message: Record<string, unknown>, detail: RegExp][] = [
    [{ type: 'open', view: 'tree' }, /agent: a text/],
    [{ type: 'open', agent: 42, view: 'tree' }, /agent: a text/],
    [{ type: 'open', agent: '42' }, /view: a text/],
    [{ type: 'page', node: 'x', limit: 501 }, /limit: a whole number from 0 to 500/],
    [{ type: 'page', node: 'x', limit: -1 }, /limit/],
    [{ type: 'page', node: 'x', limit: '5' }, /limit/],
    [{ type: 'page', node: 5, limit: 5 }, /node/],
    [{ type: 'page', node: 'x', limit: 5, offset: 10_001 }, /offset: a whole number from 0 to 10000/],
    [{ type: 'open', agent: '42', view: 'tree', fresh: 'yes' }, /fresh: true or false/],
    [{ type: 'page', node: 'x'.repeat(1025), limit: 5 }, /node/],
    [{ type: 'page', node: 'x', limit: 5, __proto: 1 }, /the key "__proto" is not known/],
    [{ type: 'close', x: 1 }, /the key "x" is not known/],
  ]
  for (const [message, detail] of cases) {
    t.match(read({ ...message, id: 3 }), { type: 'refused', id: 3, error: { code: 'BAD_REQUEST', message: detail } })
  }
})

t.test('what is of no view at all', async (t) => {
  const texts = ['', '[', '[]', 'null', '"open"', '{"type":"open"}', '{"type":"open","id":1.5}', '{"type":"x","id":1}']
  for (const text of [...texts, '{"type":"toString","id":1}', '{"type":["open"],"id":1}', '{"type":"open","id":-1}']) {
    t.throws(() => readViewsMessage(text), { code: 'INVALID_MESSAGE' }, text)
  }
})

t.test('what they are told', async (t) => {
  t.equal(updateMessage(7, Buffer.from('x{"seq":1}').subarray(1)), '{"type":"update","id":7,"update":{"seq":1}}')
  const ended = new KasError({ code: 'VIEW_ENDED', agentCode: 'BAD_REQUEST', detail: 'view: "no"' })
  t.strictSame(JSON.parse(errorMessage(7, ended)), { type: 'error', id: 7, code: 'BAD_REQUEST', text: 'view: "no"' })
  const away = new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 1 })
  t.match(JSON.parse(errorMessage(7, away)), { code: 'AGENT_NOT_CONNECTED', text: /not found/ })
})
