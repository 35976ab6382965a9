import t from 'tap'
import type { Call } from '../../../../src/call/call.ts'
import type { Tunnel } from '../../../../src/kas/tunnels/tunnel.ts'
import { agentId, callersGround, type Waiting } from './callers-ground.ts'

/**
 * One user opens 1,600 watches in a second, next to 20 other users. Each watch comes again a second after it was
 * refused or ended.
 */

const watches = 1600
const others = 20
const tunnelsOfAgent = 500
const tickMs = 100
const againMs = 1000
const lastsMs = 20_000

interface Stream {
  taken?: Tunnel | undefined
  waits?: Waiting | undefined
  /** time since which it waits, or from which it asks */
  at: number
}

async function play(plentyPerConnection: number) {
  const { tunnels, add, wait, request, pass } = callersGround({
    maxWaitingPerAgent: 1000,
    plentyPerConnection,
    few: 10,
  })
  const hers = Array.from({ length: watches }, (_, i): Stream => ({ at: (againMs * i) / watches }))
  const theirs = Array.from({ length: others }, (): Stream => ({ at: 500 }))
  const seen = { refused: 0, recalled: 0, served: 0, longestMs: 0, failures: [] as string[] }
  let now = 0
  const ask = (one: Stream, key: string, isWatch: boolean) => {
    one.at = now
    one.taken = tunnels.take(request(key, isWatch))
    if (!one.taken) one.waits = wait(key, { isWatch })
  }
  const watch = (one: Stream) => {
    if (one.waits?.got) one.taken = one.waits.got
    if (one.waits?.code) {
      seen.refused++
      one.at = now + againMs
    }
    if (one.waits?.got || one.waits?.code) one.waits = undefined
    if (one.taken?.state === 'ended') {
      seen.recalled++
      one.taken = undefined
      one.at = now + againMs
    }
    if (!one.taken && !one.waits && one.at <= now) ask(one, 'greedy', true)
    if (one.taken?.state === 'taken') void one.taken.forward({} as Call)
  }
  const call = (one: Stream, key: string) => {
    if (one.waits?.code) seen.failures.push(`${key} after ${now - one.at} ms: ${one.waits.code}`)
    if (one.waits?.got) one.taken = one.waits.got
    if (one.waits && !one.taken && !one.waits.code) return
    one.waits = undefined
    if (one.taken) {
      seen.served++
      seen.longestMs = Math.max(seen.longestMs, now - one.at)
      tunnels.giveBack(agentId, one.taken)
      one.taken = undefined
    } else if (one.at <= now) ask(one, key, false)
  }
  for (; now < lastsMs; now += tickMs) {
    add(tunnelsOfAgent - tunnels.counts(agentId, '').living)
    for (const one of hers) watch(one)
    for (const [i, one] of theirs.entries()) call(one, `user ${i}`)
    await pass(tickMs)
  }
  return seen
}

t.test(
  '1,600 watches in a second, again after each 429: the last tunnels are for the others, who never wait',
  async (t) => {
    const { refused, recalled, served, longestMs, failures } = await play(450)
    t.comment(`${refused} refused, ${recalled} recalled, ${served} calls of others, ${longestMs} ms at the most`)
    t.same(failures, [])
    t.ok(longestMs <= tickMs)
    t.ok(refused > watches)
  },
)

t.test('the same where none are left: watches are recalled for the others', async (t) => {
  const { refused, recalled, served, longestMs, failures } = await play(Number.POSITIVE_INFINITY)
  t.comment(`${refused} refused, ${recalled} recalled, ${served} calls of others, ${longestMs} ms at the most`)
  t.same(failures, [])
  t.ok(longestMs <= 1100, 'for a second, until the agent has opened another one')
  t.ok(recalled > others)
  t.ok(refused > watches)
})
