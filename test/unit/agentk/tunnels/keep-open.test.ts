import { getEventListeners } from 'node:events'
import t from 'tap'
import { type KeepOpenComponents, keepOpen, type StreamEnd } from '../../../../src/agentk/tunnels/keep-open.ts'
import { noMetadata } from '../../../../src/call/call.ts'
import { Code, KasError } from '../../../../src/lib/errors.ts'
import type { ClientSession, ClientStream } from '../../../../src/proto/grpc/client-session.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'
import { Seeded } from '../../../support/seeded.ts'

const settled = () => settle(4)

const lost = new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
const status = (grpc: number) => new KasError({ code: 'STATUS', grpc, message: 'by kas' })

/** Course of one stream. */
interface Step {
  readonly lastsMs?: number
  /** result of `read` */
  readonly end?: StreamEnd
  readonly throws?: unknown
  /** error with which kas ends the stream */
  readonly error?: KasError
  /** the connection closes with the stream */
  readonly leaves?: boolean
  /** the stream cannot be opened */
  readonly refusesOpen?: KasError
}

/** Plays one step for each stream that is opened, and records the time. */
function play(steps: readonly Step[], options: { isOurs?: boolean; restMs?: number } = {}) {
  const clock = new ManualClock(0)
  const openedAt: number[] = []
  const reports: string[] = []
  let cancelled = 0
  const stopping = new AbortController()
  let draining = false
  const session = {
    get draining() {
      return draining
    },
    open() {
      const step = steps[openedAt.length]
      openedAt.push(clock.now())
      if (step?.refusesOpen) throw step.refusesOpen
      return {
        done: Promise.resolve({ error: step?.error }),
        cancel: () => void cancelled++,
      } as unknown as ClientStream
    },
  } as unknown as ClientSession
  const kas: KeepOpenComponents['kas'] = {
    session: async () => {
      draining = false // it is another connection
      return session
    },
    metadata: () => noMetadata,
  }
  const running = keepOpen(
    { kas, clock, random: () => 0 },
    {
      method: '/x/y',
      ...options,
      async read() {
        const step = steps[openedAt.length - 1]
        if (!step) {
          const { promise, resolve } = Promise.withResolvers<void>()
          stopping.signal.addEventListener('abort', () => resolve(), { once: true })
          await promise
          return 'ended'
        }
        if (step.lastsMs) await new Promise<void>((resolve) => void clock.after(step.lastsMs ?? 0, resolve))
        if (step.leaves) draining = true
        if (step.throws) throw step.throws
        return step.end ?? 'ended'
      },
      refused: (error) => reports.push(`refused ${error.code}`),
      failed: (error) => reports.push(`failed ${(error as Error).message}`),
    },
    stopping.signal,
  )
  const until = async (ms: number, stepMs = 250) => {
    for (let i = 0; i < ms; i += stepMs) {
      await settled()
      clock.advance(stepMs)
    }
    await settled()
  }
  const stop = async () => {
    stopping.abort()
    await running
    return { timers: clock.pending, listeners: getEventListeners(stopping.signal, 'abort').length }
  }
  return { openedAt, reports, until, stop, cancelled: () => cancelled }
}

t.test('a connection that stays and refuses one stream after another is a failure, which is reported', async (t) => {
  const refused = Array.from({ length: 7 }, (): Step => ({ error: lost }))
  const { openedAt, reports, until, stop } = play(refused)
  await until(40_000)
  t.strictSame(openedAt.slice(0, 7), [0, 1000, 2000, 3000, 4000, 5000, 15_000])
  t.strictSame(reports.slice(0, 1), ['refused TUNNEL_LOST'])
  await stop()
})

const rows: readonly { name: string; step: Step; isOurs?: boolean; nextMs: number; reports?: readonly string[] }[] = [
  { name: 'it has brought what it was for: at once', step: { end: 'served' }, nextMs: 0 },
  { name: 'kas ends it at once: after a rest', step: {}, nextMs: 1000 },
  { name: 'kas ends it after a while: at once', step: { lastsMs: 1500 }, nextMs: 1500 },
  { name: 'its connection leaves: at once', step: { leaves: true }, nextMs: 0 },
  {
    name: 'its connection leaves, with an error: at once',
    step: { leaves: true, error: status(Code.UNAVAILABLE) },
    nextMs: 0,
  },
  { name: 'its connection ended: at once', step: { leaves: true, error: lost }, nextMs: 0 },
  { name: 'the connection had just left: after a rest', step: { refusesOpen: lost }, nextMs: 1000 },
  { name: 'it is lost, and not the connection: after a rest', step: { error: lost }, nextMs: 1000 },
  { name: 'kas cancels it: after a pause', step: { error: status(Code.CANCELLED) }, nextMs: 10_000 },
  { name: 'our kas cancels it: after a rest', step: { error: status(Code.CANCELLED) }, isOurs: true, nextMs: 1000 },
  { name: 'it was too long for kas: after a pause', step: { error: status(Code.DEADLINE_EXCEEDED) }, nextMs: 10_000 },
  {
    name: 'kas does not know the method',
    step: { error: status(Code.UNIMPLEMENTED) },
    nextMs: 10_000,
    reports: ['refused STATUS'],
  },
  {
    name: 'stock kas does not know our method',
    step: { error: status(Code.UNIMPLEMENTED) },
    isOurs: true,
    nextMs: 10_000,
  },
  { name: 'kas refuses', step: { error: status(Code.PERMISSION_DENIED) }, nextMs: 10_000, reports: ['refused STATUS'] },
  {
    name: 'what was received is not usable',
    step: { end: status(Code.INTERNAL) },
    nextMs: 10_000,
    reports: ['refused STATUS'],
  },
  {
    name: 'it cannot be read',
    step: { throws: new Error('bad bytes') },
    nextMs: 10_000,
    reports: ['failed bad bytes'],
  },
  {
    name: 'it cannot be read, and its connection leaves',
    step: { throws: new Error('bad bytes'), leaves: true },
    nextMs: 10_000,
    reports: ['failed bad bytes'],
  },
]

for (const { name, step, nextMs, reports = [], ...options } of rows) {
  t.test(name, async (t) => {
    const played = play([step], options)
    await played.until(12_000)
    t.strictSame(played.openedAt, [0, nextMs])
    t.strictSame(played.reports, reports)
    t.strictSame(await played.stop(), { timers: 0, listeners: 0 })
    t.equal(played.cancelled(), step.end === undefined && !step.throws ? 0 : step.end === 'served' ? 0 : 1)
  })
}

t.test('pauses grow while it fails, and begin anew once it has served', async (t) => {
  const failing = { error: status(Code.UNAVAILABLE) }
  const played = play([failing, failing, failing, { end: 'served' }, failing])
  await played.until(100_000, 5000)
  t.strictSame(played.openedAt, [0, 10_000, 30_000, 70_000, 70_000, 80_000])
  await played.stop()
})

t.test('a shorter rest', async (t) => {
  const played = play([{}, {}], { restMs: 250, isOurs: true })
  await played.until(2000)
  t.strictSame(played.openedAt, [0, 250, 500])
  await played.stop()
})

t.test(
  'whatever ends them: each is followed by another, never in a loop without a rest, and nothing is kept after the end',
  async (t) => {
    const seeded = Seeded.for(t)
    const steps = rows.map(({ step }) => step)
    for (let round = 0; round < 20; round++) {
      const some = seeded.list(12, () => seeded.pick(steps))
      const options = { isOurs: seeded.chance(0.5) }
      const played = play(some, options)
      await played.until(some.length * 310_000, 50_000)
      const stopped = await played.stop()
      const { openedAt } = played
      const hurried = some.filter(
        (step, i) => step.end !== 'served' && !step.leaves && (openedAt[i + 1] ?? 0) - (openedAt[i] ?? 0) < 1000,
      )
      if (openedAt.length !== some.length + 1 || hurried.length > 0 || stopped.timers + stopped.listeners > 0)
        t.fail(`round ${round}`, { openedAt, some, hurried, stopped })
    }
    t.pass('20 rounds')
  },
)
