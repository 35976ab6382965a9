import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { Attacker } from './attacker.ts'
import { attacks } from './attacks.ts'
import { GoodLoad } from './good-load.ts'
import { HostileGround } from './hostile-ground.ts'
import { newcomerServed } from './newcomer.ts'
import { residentBytes, stallMs } from './vital-signs.ts'

/** Each attack in a small size, beside good tenants, who see nothing of it. All on one stack: starting one takes time. */

const startMs = 60_000
const attackMs = 60_000
/** for what an attack has broken to be whole again, so that the next one is judged by itself. ms */
const recoveryMs = 20_000
/** what a good caller waits; the longest pauses of a busy machine are a tenth of it. ms */
const patienceMs = 5000
/** twice of what the soak allows, which gives collections of garbage their time */
const maxMoreBytes = 128 * 1024 * 1024

t.test(
  'a tenant\u2019s cost is his own',
  { timeout: startMs + attacks.length * (attackMs + 2 * recoveryMs) },
  async (t) => {
    const ground = await HostileGround.start(AbortSignal.timeout(startMs))
    t.teardown(() => ground.stop())
    const attacker = await Attacker.start()
    t.teardown(() => attacker.stop())
    const accesses = [ground.entry.access, ground.holder.access]
    const load = new GoodLoad({ accesses, callsPerSecond: 10, watches: 3, execs: 1, patienceMs })
    t.teardown(() => load.stop())
    await load.start(AbortSignal.timeout(startMs))
    const stalls = () => Promise.all(ground.watched.map(stallMs))
    const memory = () => Promise.all(ground.watched.map(residentBytes))

    for (const { name, what, refusal } of attacks) {
      await t.test(`${name}: ${what}`, async (t) => {
        const before = await memory()
        await stalls()
        const cutBefore = load.cut.length
        const period = load.period()
        const answer = await attacker.play({ name, size: 'cheap', stage: ground.stage, timeoutMs: attackMs })
        const most = await memory()
        t.equal(await newcomerServed(ground), undefined, 'a newcomer is served meanwhile')
        const ended = await attacker.end()
        await period.stop()
        const more = Math.max(...most.map((bytes, i) => bytes - (before[i] as number)))
        const worst = Math.max(...(await stalls()))
        t.comment(`${answer.refusal ?? answer.failure}`)
        t.comment(
          `stalled for ${worst.toFixed(0)} ms, ${(more / 2 ** 20).toFixed(0)} MiB more, attacker ${ended.cpuMs} ms`,
        )
        t.match(answer.refusal ?? answer.failure, refusal, 'the evil tenant is told why')
        t.equal(answer.failure, undefined, 'and at once')
        t.same(period.failures, [], 'no good call fails')
        t.same(load.cut.slice(cutBefore), [], 'no watch and no exec is cut')
        t.ok(more <= maxMoreBytes, `${(more / 2 ** 20).toFixed(0)} MiB more than before`)
        t.same(await ground.brokenLinks(), [], 'all links between replicas can be used')
        await eventually(() => load.watchesLive(), { timeoutMs: recoveryMs })
      })
    }
  },
)
