import t from 'tap'
import { TemporaryInstallation } from '../../dev/installed/temporary-installation.ts'
import { attacks } from '../hostile/attacks.ts'
import { type FullSize, floorMs, maxSlowdown, playFullSize, type Seen } from '../hostile/full-size.ts'

/** Each attack of an evil tenant at full size, beside good tenants' load, which must not notice. */

interface Options {
  readonly seconds: number
  /** default: all, one after the other */
  readonly attack?: string
  /** the programs are those of the package, packed and installed as the images do it; default: of the source tree */
  readonly installed?: boolean
}

const { seconds, attack: chosen, installed }: Options = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? '{"seconds":60}')
const maxStallMs = 200
const maxMoreBytes = 64 * 1024 * 1024
/** start, warm-up, quiet time, control and end; each round may take as long as all of it. ms */
const aroundMs = 300_000
const shownFailures = 3

const installation = new TemporaryInstallation({ onStep: (text) => t.comment(text) })
if (installed) {
  t.teardown(() => installation.stop())
  await installation.start()
}

for (const attack of attacks.filter(({ name }) => chosen === undefined || name === chosen)) {
  await t.test(attack.name, { timeout: seconds * 1000 + aroundMs }, async (t) => {
    t.comment(`${attack.name}: ${attack.what}`)
    const result = await playFullSize(attack, seconds, installed ? installation.programs : undefined)
    const { quiet, during, control, cut, newcomers, more, rounds, refusal, attackerShare } = result
    t.comment(`${rounds} rounds in ${seconds} s, ${(100 * attackerShare).toFixed(0)} % of a core is the attacker's own`)
    t.comment(`the evil tenant is told: ${refusal || 'nothing'}`)
    t.comment(`before: ${told(quiet)}`)
    t.comment(`during: ${told(during)}`)
    if (control) t.comment(`beside a process that only takes as much CPU as the attacker: ${told(control)}`)
    t.comment(`memory: ${more.map(({ name, bytes }) => `${name} ${mebibytes(bytes)} MiB`).join(', ')} more than before`)
    if (attack.refusal) t.match(refusal, attack.refusal, `${attack.name}: the evil tenant is told what he may not`)
    for (const line of [...during.failures.slice(0, shownFailures), ...newcomers.slice(0, 1), ...during.broken])
      t.comment(`! ${line.split('\n')[0]}`)
    t.equal(during.failures.length, 0, `${attack.name}: no good call fails`)
    t.equal(newcomers.length, 0, `${attack.name}: newcomers are served`)
    t.equal(cut.length, 0, `${attack.name}: no watch and no exec is cut`)
    t.ok(fast(result), `${attack.name}: p99 at most ${maxSlowdown} times, above ${floorMs} ms`)
    t.ok(during.stallMs <= maxStallMs, `${attack.name}: no event loop stalls for more than ${maxStallMs} ms`)
    t.equal(during.broken.length, 0, `${attack.name}: all links can be used`)
    const kas = more.filter(({ name }) => name !== 'agentk')
    const worst = Math.max(...kas.map(({ bytes }) => bytes))
    t.ok(worst <= maxMoreBytes, `${attack.name}: kas takes at most ${mebibytes(maxMoreBytes)} MiB more`)
  })
}

/** Against the machine without the attack; if that was slower, against the machine as busy as the attacker makes it. */
function fast({ quiet, during, control }: FullSize): boolean {
  const before = Math.max(floorMs, quiet.p99Ms, control?.p99Ms ?? 0)
  return during.p99Ms <= maxSlowdown * before
}

function told({ calls, failures, p99Ms, stallMs, stalled }: Seen): string {
  const stall = `longest stall ${stallMs.toFixed(0)} ms (${stalled})`
  return `${calls} calls, ${failures.length} failed, p99 ${p99Ms.toFixed(1)} ms, ${stall}`
}

function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0)
}
