import t, { type Test } from 'tap'
import type { JsonAnswer } from '../../../../src/agentk/cluster/api-client.ts'
import {
  BackgroundRequests,
  type BackgroundRequestsOptions,
  type LaneName,
} from '../../../../src/agentk/cluster/background-requests.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: readonly string[]
  answer(status: number, rest?: Partial<JsonAnswer>): Promise<void>
}

const settled = async () => {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

function start(options: Partial<BackgroundRequestsOptions> = {}) {
  const clock = new ManualClock()
  const sent: Sent[] = []
  const calls: LaneName[] = []
  let holds = true
  const client = {
    json: (
      method: string,
      path: string,
      _body?: unknown,
      signal?: AbortSignal,
      given?: { headers?: readonly string[] },
    ) => {
      const { promise, resolve, reject } = Promise.withResolvers<JsonAnswer>()
      signal?.addEventListener('abort', () => reject(signal.reason))
      const answer = (status: number, rest = {}) => {
        resolve({ status, body: {}, ...rest })
        return settled()
      }
      sent.push({ method, path, headers: given?.headers ?? [], answer })
      return promise
    },
  }
  const lanes = new BackgroundRequests(
    { client, clock, holds: () => holds, onCall: (name) => calls.push(name) },
    options,
  )
  const lose = () => {
    holds = false
  }
  return { clock, sent, calls, lanes, lose, paths: () => sent.map(({ path }) => path) }
}

const fast = { callsPerSecond: Number.POSITIVE_INFINITY }

t.test('so many at once, the others wait', async (t) => {
  const { lanes, sent, paths } = start({ ...fast, maxWidth: 4 })
  const apply = lanes.lane('apply')
  const all = Array.from({ length: 6 }, (_, i) => apply.json('GET', `/${i}`))
  t.equal(sent.length, 4)
  await sent[2]?.answer(200)
  t.strictSame(paths(), ['/0', '/1', '/2', '/3', '/4'])
  for (let i = 0; i < 6; i++) await sent[i]?.answer(200)
  t.strictSame(
    (await Promise.all(all)).map(({ status }) => status),
    [200, 200, 200, 200, 200, 200],
  )
})

t.test('so many a second, after a burst of as many as may be in flight', async (t) => {
  const { lanes, sent, clock } = start({ callsPerSecond: 100, maxWidth: 8 })
  const apply = lanes.lane('apply')
  const answered = async () => {
    for (const each of sent) await each.answer(200)
  }
  clock.advance(10_000)
  for (let i = 0; i < 300; i++) void apply.json('GET', `/${i}`)
  await answered()
  const burst = sent.length
  t.ok(burst >= 8 && burst <= 10, `burst of ${burst}`)
  for (let i = 0; i < 100; i++) {
    clock.advance(10)
    await answered()
  }
  t.equal(sent.length, burst + 100)
})

t.test('control goes before what waits, and finds a place beside slow applies', async (t) => {
  const { lanes, sent, paths, calls } = start({ ...fast, maxWidth: 4 })
  const [control, apply, scan] = [lanes.lane('control'), lanes.lane('apply'), lanes.lane('scan')]
  for (let i = 0; i < 4; i++) void apply.json('PATCH', `/a${i}`)
  void scan.json('GET', '/s')
  void apply.json('PATCH', '/a4')
  for (let i = 0; i < 3; i++) void control.json('PUT', `/c${i}`)
  t.strictSame(paths(), ['/a0', '/a1', '/a2', '/a3', '/c0', '/c1'])
  await sent[4]?.answer(200)
  await sent[0]?.answer(200)
  await sent[1]?.answer(200)
  await sent[2]?.answer(200)
  await sent[3]?.answer(200)
  t.strictSame(paths().slice(6), ['/c2', '/a4', '/s'])
  t.strictSame(new Set(calls), new Set(['apply', 'control', 'scan']))
})

t.test('users of a lane take turns', async (t) => {
  const { lanes, sent, paths } = start({ ...fast, maxWidth: 4 })
  const [one, other] = [lanes.lane('apply'), lanes.lane('apply', ['Impersonate-User', 'u'])]
  for (let i = 0; i < 8; i++) void one.json('GET', `/one${i}`)
  void other.json('GET', '/other', undefined, undefined, { headers: ['X', 'y'] })
  await sent[0]?.answer(200)
  await sent[1]?.answer(200)
  t.ok(paths().includes('/other'), paths().join())
  t.strictSame(sent.find(({ path }) => path === '/other')?.headers, ['Impersonate-User', 'u', 'X', 'y'])
})

t.test('429: all rest as long as it asks for, go on narrower, and the call is made again', async (t) => {
  const { lanes, sent, clock, paths } = start({ ...fast, maxWidth: 32 })
  const apply = lanes.lane('apply')
  const refused = apply.json('PATCH', '/refused')
  await sent[0]?.answer(429, { retryAfterMs: 3000 })
  t.equal(lanes.width, 16)
  const other = apply.json('PATCH', '/other')
  clock.advance(2999)
  t.strictSame(paths(), ['/refused'])
  clock.advance(1)
  t.strictSame(paths().slice(1).sort(), ['/other', '/refused'])
  await sent[1]?.answer(200)
  await sent[2]?.answer(201)
  t.strictSame([(await refused).status, (await other).status].sort(), [200, 201])
})

t.test('429 for ever is an answer in the end', async (t) => {
  const { lanes, sent, clock } = start(fast)
  const answer = lanes.lane('apply').json('PATCH', '/x')
  for (let i = 0; i < 6; i++) {
    await sent[i]?.answer(429)
    clock.advance(1000)
  }
  t.equal((await answer).status, 429)
  t.equal(sent.length, 6)
  t.equal(lanes.width, 4)
})

t.test('calls that fail together halve the width once; calls that go well widen it again', async (t) => {
  const { lanes, sent, clock } = start({ ...fast, maxWidth: 32 })
  const apply = lanes.lane('apply')
  const all = Array.from({ length: 32 }, () => apply.json('GET', '/x'))
  clock.advance(2000)
  for (const each of sent) await each.answer(503)
  await Promise.all(all)
  t.equal(lanes.width, 16)
  for (let i = 0; i < 16; i++) {
    void apply.json('GET', '/y')
    await sent.at(-1)?.answer(200)
  }
  t.equal(lanes.width, 17)
})

t.test('errors that come at once, and webhooks of others, do not', async (t) => {
  const { lanes, sent, clock } = start({ ...fast, maxWidth: 32 })
  const apply = lanes.lane('apply')
  void apply.json('GET', '/a')
  await sent[0]?.answer(500)
  void apply.json('PATCH', '/b')
  clock.advance(10_000)
  await sent[1]?.answer(500, { body: { message: 'Internal error occurred: failed calling webhook "x.lab.io"' } })
  t.equal(lanes.width, 32)
})

t.test('a call that never ends is given up', async (t) => {
  const { lanes, clock } = start(fast)
  const answer = lanes.lane('apply').json('GET', '/a')
  clock.advance(75_000)
  await t.rejects(answer, { code: 'DEADLINE_EXCEEDED' })
  t.equal(lanes.width, 16)
})

t.test('a pod that may not write sends no write, whenever its turn comes', async (t) => {
  const { lanes, sent, paths, lose } = start({ ...fast, maxWidth: 4 })
  const apply = lanes.lane('apply')
  for (let i = 0; i < 4; i++) void apply.json('PATCH', `/${i}`)
  const late = apply.json('DELETE', '/late')
  const read = apply.json('GET', '/read')
  lose()
  void sent[0]?.answer(200)
  await t.rejects(late, { code: 'CANCELLED' })
  await settled()
  t.strictSame(paths(), ['/0', '/1', '/2', '/3', '/read'])
  await sent[4]?.answer(200)
  t.equal((await read).status, 200)
})

t.test('a call whose user has left is not sent', async (t: Test) => {
  const { lanes, sent, paths, clock } = start({ ...fast, maxWidth: 4 })
  const apply = lanes.lane('apply')
  const leaving = new AbortController()
  for (let i = 0; i < 4; i++) void apply.json('GET', `/${i}`)
  const left = apply.json('GET', '/left', undefined, leaving.signal)
  leaving.abort(new Error('left'))
  await t.rejects(left, { message: 'left' })
  for (const each of sent) await each.answer(200)
  t.equal(paths().includes('/left'), false)
  t.equal(clock.pending, 0)
})

t.test('calls go on though the clock is set back', async (t) => {
  const { lanes, clock, sent } = start({ callsPerSecond: 1, maxWidth: 1 })
  const lane = lanes.lane('apply')
  void lane.json('GET', '/a')
  await sent[0]?.answer(200)
  clock.putBack(24 * 3600_000)
  void lane.json('GET', '/b')
  clock.advance(1000)
  t.equal(sent.length, 2)
  await sent[1]?.answer(429, { retryAfterMs: 60_000 })
  clock.advance(59_000)
  t.equal(sent.length, 2, 'a pause that the server asks for lasts')
  clock.advance(2000)
  t.equal(sent.length, 3)
  await sent[2]?.answer(200)
})

t.test('slow calls of previews leave places to rounds', async (t) => {
  const { lanes, sent, paths } = start({ ...fast, maxWidth: 4 })
  const users = [lanes.lane('preview'), lanes.lane('preview')]
  const all = Array.from({ length: 6 }, (_, i) => users[i % 2]?.json('PATCH', `/slow-${i}`))
  t.equal(sent.length, 2)
  const round = lanes.lane('apply')
  all.push(round.json('PATCH', '/a'), round.json('PATCH', '/b'), round.json('PATCH', '/c'))
  t.strictSame(paths().slice(2), ['/a', '/b'])
  await sent[0]?.answer(200)
  t.strictSame(paths().slice(4), ['/c'], 'the free place is for the round')
  for (let i = 1; i < 9; i++) await sent[i]?.answer(200)
  await Promise.all(all)
  t.equal(sent.length, 9)
})

t.test('a preview goes on at the least width', async (t) => {
  const { lanes, sent } = start({ ...fast, minWidth: 1, maxWidth: 1 })
  const call = lanes.lane('preview').json('GET', '/a')
  await sent[0]?.answer(200)
  t.equal((await call).status, 200)
})
