import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { TemporaryInstallation } from '../../dev/installed/temporary-installation.ts'
import { commonBounds } from '../hostile/attack.ts'
import { attacks } from '../hostile/attacks.ts'
import { floorMs, playFullSize, type Seen, slower } from '../hostile/full-size.ts'

/** Each attack of an evil tenant at full size, beside good tenants' load, which must not notice it. */

interface Options {
  readonly seconds: number
  /** default: all, one after the other */
  readonly attack?: string
  /** uses the programs of the images; default: those of the source tree */
  readonly installed?: boolean
}

const { seconds, attack: chosen, installed }: Options = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? '{"seconds":60}')
const maxStallMs = 200
/** limit for start, warm-up, quiet time, control and end, and for each round. ms */
const aroundMs = 600_000
const shownFailures = 3
const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const noCluster = missing.length > 0 && `needs ${missing.join(', ')}`

const installation = new TemporaryInstallation({ onStep: (text) => t.comment(text) })
if (installed) {
  t.teardown(() => installation.stop())
  await installation.start()
}

for (const attack of attacks.filter(({ name }) => chosen === undefined || name === chosen)) {
  const skip = attack.cluster === true && noCluster
  await t.test(attack.name, { skip, timeout: seconds * 1000 + aroundMs }, async (t) => {
    t.comment(`${attack.name}: ${attack.what}`)
    const programs = installed ? installation.programs : undefined
    const result = await playFullSize(attack, { seconds, programs, assets }).catch((error: Error) => {
      t.comment(`! ${error.message}`)
      throw error
    })
    const { quiet, during, control, cut, newcomers, more, rounds, refusal, attackerShare } = result
    const { died, viewsThreadEnds, unplayed, slowestHookMs } = result
    const failures = during.done.flatMap((each) => each.failures)
    t.comment(`${rounds} rounds in ${seconds} s, ${(100 * attackerShare).toFixed(0)} % of a core is the attacker's own`)
    if (slowestHookMs > 0) t.comment(`a good hook waits ${slowestHookMs.toFixed(0)} ms at the most`)
    t.comment(`the evil tenant is told: ${refusal || 'nothing'}`)
    t.comment(`before: ${told(quiet)}`)
    t.comment(`during: ${told(during)}`)
    if (control) t.comment(`beside a process that only takes as much CPU as the attacker: ${told(control)}`)
    t.comment(`memory: ${more.map(({ name, bytes }) => `${name} ${mebibytes(bytes)} MiB`).join(', ')} more than before`)
    if (attack.refusal) t.match(refusal, attack.refusal, `${attack.name}: the evil tenant is told what he may not`)
    for (const line of [...unplayed.slice(0, 1), ...failures, ...cut, ...newcomers.slice(0, 1), ...during.broken].slice(
      0,
      shownFailures,
    ))
      t.comment(`! ${line.split('\n')[0]}`)
    t.equal(failures.length, 0, `${attack.name}: nothing that is good fails`)
    t.same(unplayed, [], `${attack.name}: each round is played whole`)
    t.equal(newcomers.length, 0, `${attack.name}: newcomers and hooks are served`)
    t.equal(cut.length, 0, `${attack.name}: no watch, exec or view is cut`)
    t.same(died, [], `${attack.name}: each program lives`)
    t.equal(viewsThreadEnds, 0, `${attack.name}: the thread of views goes on`)
    const { slowdown, moreMib } = { ...commonBounds, ...attack.bounds }
    for (const { name } of during.done) {
      const isFast = !slower(result, slowdown).some((one) => one.name === name)
      t.ok(isFast, `${attack.name}: p99 of each ${name} at most ${slowdown} times, above ${floorMs} ms`)
    }
    t.ok(during.stallMs <= maxStallMs, `${attack.name}: no event loop stalls for more than ${maxStallMs} ms`)
    t.equal(during.broken.length, 0, `${attack.name}: all links can be used`)
    const judged = more.filter(({ name }) => name !== 'agentk' || attack.agentkMemory !== 'bounded')
    const worst = Math.max(...judged.map(({ bytes }) => bytes))
    t.ok(worst <= moreMib * 2 ** 20, `${attack.name}: no program takes more than ${moreMib} MiB more`)
  })
}

function told({ done, stallMs, stalled }: Seen): string {
  const each = done.map(({ name, count, failures, p99Ms }) => {
    return `${name}: ${count}, ${failures.length} failed, p99 ${p99Ms.toFixed(1)} ms`
  })
  return `${each.join('; ')}; longest stall ${stallMs.toFixed(0)} ms (${stalled})`
}

function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0)
}
