import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import type { Attack } from './attack.ts'
import { Attacker } from './attacker.ts'
import { attacks } from './attacks.ts'
import { GoodLoad } from './good-load.ts'
import { HostileGround } from './hostile-ground.ts'
import { newcomerServed } from './newcomer.ts'
import { SlowGitlab } from './slow-gitlab.ts'
import { residentBytes, vitalSigns } from './vital-signs.ts'

/** Each attack in a small size, beside good tenants, who see nothing of it. All on one stack: starting one takes time. */

const startMs = 60_000
const attackMs = 60_000
/** for what an attack has broken to be whole again, so that the next one is judged by itself. ms */
const recoveryMs = 20_000
/** what a good caller waits; the longest pauses of a busy machine are a tenth of it. ms */
const patienceMs = 5000
/** twice of what the soak allows, which gives collections of garbage their time */
const maxMoreBytes = 128 * 1024 * 1024
/** of the row of one replica, twice an agent's share */
const maxToldBytes = 512 * 1024

const slowGitlab = async (t: Test) => {
  const gitlab = await SlowGitlab.start()
  t.teardown(() => gitlab.stop())
  return gitlab
}

for (const [who, played, directory] of [
  ['a tenant\u2019s cost is his own', attacks.filter(({ gitlab }) => !gitlab), () => undefined],
  ['a stranger\u2019s too, where GitLab says who is who', attacks.filter(({ gitlab }) => gitlab), slowGitlab],
] as const) {
  t.test(who, { timeout: startMs + played.length * (attackMs + 2 * recoveryMs) }, async (t) => {
    const ground = await HostileGround.start(AbortSignal.timeout(startMs), await directory(t))
    t.teardown(() => ground.stop())
    const attacker = await Attacker.start()
    t.teardown(() => attacker.stop())
    const accesses = [ground.entry.access, ground.holder.access]
    const load = new GoodLoad({ accesses, callsPerSecond: 10, watches: 3, execs: 1, patienceMs })
    t.teardown(() => load.stop())
    await load.start(AbortSignal.timeout(startMs))
    for (const attack of played) {
      await t.test(`${attack.name}: ${attack.what}`, (t) => harmless(t, { ground, attacker, load }, attack))
    }
  })
}

interface Scene {
  readonly ground: HostileGround
  readonly attacker: Attacker
  readonly load: GoodLoad
}

async function harmless(
  t: Test,
  { ground, attacker, load }: Scene,
  { name, refusal, counter }: Attack<unknown>,
): Promise<void> {
  const signs = () => Promise.all(ground.watched.map(vitalSigns))
  const memory = () => Promise.all(ground.watched.map(residentBytes))
  const counted = async () => (await vitalSigns(ground.holder)).counter(counter ?? '')
  const [before, countedBefore, cutBefore] = [await memory(), await counted(), load.cut.length]
  await signs()
  const period = load.period()
  const answer = await attacker.play({ name, size: 'cheap', stage: ground.stage, timeoutMs: attackMs })
  const most = await memory()
  const newcomer = await newcomerServed(ground)
  const toldBytes = await ground.toldOfEvil()
  const countedAfter = await counted()
  const { cpuMs = 0 } = await attacker.end()
  await period.stop()
  const stallMs = Math.max(...(await signs()).map((each) => each.stallMs))
  const more = Math.max(...most.map((bytes, i) => bytes - (before[i] as number)))
  t.comment(answer.refusal || answer.failure || 'nothing was refused')
  t.comment(`stalled for ${stallMs.toFixed(0)} ms, ${mebibytes(more)} MiB more, attacker ${cpuMs.toFixed(0)} ms of CPU`)
  t.equal(answer.failure, undefined, 'the evil tenant is not kept waiting')
  if (refusal) t.match(answer.refusal, refusal, 'he is told what he may not')
  if (counter) t.ok(countedAfter > countedBefore, `and counted in ${counter}`)
  t.equal(newcomer, undefined, 'a newcomer is served meanwhile')
  t.same(period.failures, [], 'no good call fails')
  t.same(load.cut.slice(cutBefore), [], 'no watch and no exec is cut')
  t.ok(more <= maxMoreBytes, `${mebibytes(more)} MiB more than before`)
  t.ok(toldBytes <= maxToldBytes, `other replicas are told ${toldBytes} bytes of him`)
  t.same(await ground.brokenLinks(), [], 'all links between replicas can be used')
  await eventually(() => load.watchesLive(), { timeoutMs: recoveryMs })
}

const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0)
