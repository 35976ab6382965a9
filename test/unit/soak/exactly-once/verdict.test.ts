import t from 'tap'
import type { CallEnd } from '../../../soak/exactly-once/kubectl-call.ts'
import { verdict } from '../../../soak/exactly-once/verdict.ts'

const round = { number: 1, fault: 'kill', victim: 'holder' } as const
const succeeded: CallEnd = {
  identity: 'a',
  kind: 'create',
  succeeded: true,
  delivery: undefined,
  fellBack: false,
  hung: false,
  error: '',
}
const failed = { ...succeeded, succeeded: false, error: 'error: EOF' }
const exec = { ...succeeded, kind: 'exec-spdy' } as const

/** Returns the failures of one call. */
function faultsOf(end: CallEnd, seen: { count: number; runs?: number }): readonly string[] {
  const counts = new Map([
    ['other', 1],
    [end.identity, seen.count],
  ])
  return verdict({ played: [{ round, inside: 1, ends: [end] }], counts, ran: Array(seen.runs ?? 0).fill(end.identity) })
    .failures
}

t.test('what holds', async (t) => {
  t.same(faultsOf(succeeded, { count: 1 }), [])
  t.same(faultsOf(exec, { count: 1, runs: 1 }), [])
  t.same(faultsOf(failed, { count: 0 }), [])
  t.same(faultsOf({ ...failed, delivery: 'maybe' }, { count: 0 }), [])
  t.same(faultsOf({ ...failed, delivery: 'maybe' }, { count: 1 }), [])
  t.same(faultsOf({ ...failed, delivery: 'none' }, { count: 0 }), [])
})

t.test('what does not', async (t) => {
  t.match(faultsOf({ ...failed, delivery: 'maybe' }, { count: 2 }), [/^a has reached the API server 2 times$/])
  t.match(faultsOf({ ...exec, fellBack: true }, { count: 2, runs: 1 }), [/2 times, kubectl sent it by WebSocket/])
  t.match(faultsOf(exec, { count: 1, runs: 2 }), [/^a was run 2 times$/])
  t.match(faultsOf(succeeded, { count: 0 }), [/has not reached the API server/])
  t.match(faultsOf(exec, { count: 1 }), [/has run as kubectl says, and has not/])
  t.match(faultsOf({ ...failed, delivery: 'none' }, { count: 1 }), [/was said not to be delivered, and was/])
  t.match(faultsOf({ ...failed, hung: true }, { count: 1 }), [/did not end/])
})

t.test('a log without any request shows nothing', async (t) => {
  const { failures } = verdict({ played: [{ round, inside: 0, ends: [failed] }], counts: new Map(), ran: [] })
  t.match(failures, [/nothing was shown/])
})

t.test('figures', async (t) => {
  const ends = [succeeded, { ...failed, identity: 'b', delivery: 'maybe' as const }, { ...failed, identity: 'c' }]
  const counts = new Map([
    ['a', 1],
    ['b', 1],
  ])
  const { figures } = verdict({ played: [{ round, inside: 2, ends }], counts, ran: [] })
  t.strictSame(figures, [
    '1 faults: 1 kill of the holder',
    '1 of them came while a request was in the cluster',
    '3 calls of kubectl, 3 create: 1 succeeded',
    '2 failed: 0 with delivery none, 1 with maybe, 1 cut',
    'at the API server: 2 once, 1 never, 0 more than once',
    'failed 2 times: create: error: EOF',
  ])
})
