import t from 'tap'
import { delay } from '../../src/lib/signals.ts'
import { Attacker } from '../hostile/attacker.ts'
import { attacks } from '../hostile/attacks.ts'
import { GoodLoad } from '../hostile/good-load.ts'
import { HostileGround, type Watched } from '../hostile/hostile-ground.ts'
import { newcomerServed } from '../hostile/newcomer.ts'
import { residentBytes, vitalSigns } from '../hostile/vital-signs.ts'
import { testPrograms } from '../support/programs.ts'
import { allocatorCommand } from './allocator.ts'
import { MemoryGroups, missingMemoryGroups } from './memory-groups.ts'
import { type MemoryPart, memoryParts, sceneDefaults } from './soak-options.ts'

/** Replicas in memory cgroups of a pod's size, beside callers and agents that need more memory than there is. */

interface Options {
  readonly seconds: number
  readonly mebibytes: number
  /** default: all, one after the other */
  readonly part?: MemoryPart
}

const defaults = JSON.stringify(sceneDefaults.memory)
const { seconds, mebibytes, part }: Options = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? defaults)
const MiB = 2 ** 20
const startMs = 60_000
const warmUpMs = 10_000
const attackMs = 300_000
const restMs = 60_000
const maxLeftBytes = 64 * MiB
const maxShown = 3
const load = { callsPerSecond: 10, watches: 5, execs: 1, patienceMs: 10_000 }

const skip = missingMemoryGroups()
const allocator = allocatorCommand()
for (const name of part ? [part] : memoryParts) {
  await t.test(name, { skip, timeout: startMs + attackMs + restMs + seconds * 1000 + 120_000 }, async (t) => {
    const attack = attacks.find((one) => one.name === name)
    if (!attack) throw new Error(`no attack ${name}`)
    t.comment(`${attack.name}: ${attack.what}`)
    const groups = new MemoryGroups(mebibytes * MiB)
    const programs = { ...testPrograms, kas: groups.command([...(allocator ?? []), ...testPrograms.kas]) }
    t.comment(
      `replicas allocate with ${allocator ? 'jemalloc, as in their image' : 'glibc: no libjemalloc.so.2 is here'}`,
    )
    const ground = await HostileGround.start(AbortSignal.timeout(startMs), { programs })
    t.teardown(async () => {
      await ground.stop()
      groups.remove()
    })
    const attacker = await Attacker.start()
    t.teardown(() => attacker.stop())
    const { users, place } = ground
    const accesses = [ground.entry.access, ground.holder.access]
    const good = new GoodLoad({ ...load, accesses, users, place })
    t.teardown(() => good.stop())
    await good.start(AbortSignal.timeout(startMs))
    const warmUp = good.period()
    await delay(warmUpMs)
    await warmUp.stop()
    const replicas = ground.watched.filter(({ name: program }) => program !== 'agentk')
    const pids = replicas.map(({ pid }) => pid())
    const [before, cutBefore] = [await Promise.all(replicas.map(residentBytes)), good.cut.length]
    const period = good.period()
    const answer = await attacker.play({ name, size: 'full', stage: ground.stage, timeoutMs: attackMs })
    const during = await Promise.all(replicas.map(residentBytes))
    const newcomers: string[] = []
    for (const until = performance.now() + seconds * 1000; performance.now() < until; await delay(1000))
      newcomers.push(...[(await newcomerServed(ground)) ?? []].flat())
    const held = await Promise.all(replicas.map(residentBytes))
    await attacker.end()
    await period.stop()
    await delay(restMs)
    const after = await Promise.all(replicas.map(residentBytes))
    t.comment(`the greedy one is told: ${answer.refusal ?? `nothing: ${answer.failure}`}`)
    for (const { name: series, tookMs, failures } of period.series)
      t.comment(`${series}: ${tookMs.length}, ${failures.length} failed, p99 ${p99(tookMs).toFixed(0)} ms`)
    for (const [i, replica] of replicas.entries()) {
      const figures = [before, during, held, after].map((all) => `${((all[i] as number) / MiB).toFixed(0)}`)
      t.comment(
        `RSS of ${replica.name}: ${figures.join(', ')} MiB (before, played, held, a minute later); ${await inside(replica)}`,
      )
    }
    const cut = good.cut.slice(cutBefore)
    for (const line of [...period.failures, ...newcomers, ...cut].slice(0, maxShown)) t.comment(`! ${line}`)
    t.equal(answer.failure, undefined, `${name}: the attack is played whole`)
    if (attack.refusal) t.match(answer.refusal, attack.refusal, `${name}: the greedy one is told`)
    t.same(period.failures, [], `${name}: no call, row or push of a good tenant fails`)
    t.same(newcomers, [], `${name}: a newcomer's calls are served`)
    t.same(cut, [], `${name}: no watch, exec or view is cut`)
    t.same(
      replicas.map(({ pid }) => pid()),
      pids,
      `${name}: each replica lives`,
    )
    t.equal(groups.kills(), 0, `${name}: the kernel has killed none`)
    const left = Math.max(...after.map((bytes, i) => bytes - (before[i] as number)))
    t.ok(left <= maxLeftBytes, `${name}: a minute later at most ${maxLeftBytes / MiB} MiB more than before`)
  })
}

async function inside(replica: Watched): Promise<string> {
  const { counter } = await vitalSigns(replica)
  const full = (share: string) => `${share} full ${counter(`kas_memory_share_full_total{share="${share}"}`)} times`
  const bytes = (name: string) => `${(counter(`nodejs_${name}_bytes`) / MiB).toFixed(0)} MiB`
  const heap = `heap ${bytes('heap_size_used')} of ${bytes('heap_size_total')}, external ${bytes('external_memory')}`
  const unread = `unread ${(counter('kas_memory_share_bytes{share="unread"}') / 1024).toFixed(0)} KiB`
  return [full('unread'), full('callers'), unread, heap].join(', ')
}

function p99(tookMs: readonly number[]): number {
  return tookMs.toSorted((one, other) => one - other)[Math.floor(tookMs.length * 0.99)] ?? 0
}
