import t, { type Test } from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { delay } from '../../src/lib/signals.ts'
import { eventually } from '../support/eventually.ts'
import { patienceMs, UnlistedGround } from './unlisted/unlisted-ground.ts'

/**
 * Kinds that the API server cannot list delay no command about other kinds, whether kas had listed them before or not.
 */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

/** Number of kinds: Queue, Stone, Gadget. */
const kinds = 3
/** Time after which a kind is set aside: 60 s. ms */
const asideMs = 60_000
const answerMs = 5000
const findingMs = 60_000
const mendedMs = 90_000

t.test('unlisted', { skip }, async (t) => {
  const ground = await UnlistedGround.start(t)
  await ground.breakAll('never')
  await ground.startAgentk()
  await play(t, ground, 'before it was listed', false)
  await mend(t, ground, 'before it was listed')
  await ground.breakAll(500)
  await play(t, ground, 'after it was listed', true)
  await mend(t, ground, 'after it was listed')
})

/**
 * Runs commands after the kinds have become impossible to list.
 *
 * @param isKnown - kinds of the aggregated API have been discovered before
 */
async function play(t: Test, ground: UnlistedGround, when: string, isKnown: boolean): Promise<void> {
  const since = performance.now()
  const crd = ground.row('apiextensions.k8s.io/CustomResourceDefinition', 'queues.p1.example.com')
  const service = ground.row('apiregistration.k8s.io/APIService', 'v1.api.example.net')
  const [crdMs, serviceMs, asideAfterMs] = await Promise.all([
    timed(since, async () => (await crd())?.z?.reason === 'WebhookServiceMissing'),
    timed(since, async () => (await service())?.z?.reason === 'FailedDiscoveryCheck'),
    timed(since, async () => (await ground.aside()).length === kinds),
  ])
  within(t, `${when}: the finding of the CRD`, crdMs, findingMs)
  within(t, `${when}: the finding of the APIService`, serviceMs, findingMs)
  t.comment(`${when}: all three are set aside after ${asideAfterMs} ms`)
  await delay(Math.max(0, since + asideMs - performance.now()))
  const ask = async (argv: string, code: number, said: RegExp) => {
    const began = performance.now()
    const answer = await ground.kas(argv)
    const ms = Math.round(performance.now() - began)
    t.equal(answer.code, code, `${when}: kas ${argv}: ${answer.code}\n${answer.stdout}${answer.stderr}`)
    t.match(answer.stdout, said, `${when}: kas ${argv}: what it says`)
    within(t, `${when}: kas ${argv}`, ms, answerMs)
  }
  await ask('tree -n other', 0, /Deployment\/web/)
  await ask('tree -A --problems', 0, /WebhookServiceMissing/)
  await ask('get deploy -n other', 0, /web/)
  await ask('get events -n other', 0, /^/)
  await ask('health deploy/web -n other --stable 1s', 0, /healthy/)
  await ask('health -n other --stable 1s', 0, /healthy/)
  await ask('health said/s -n default --stable 1s', 0, /healthy/)
  await ask('health queue/first -n default --wait 1s', 5, /Queue cannot be listed since/)
  await ask('health fleet/f -n default', 5, /Queue cannot be listed since/)
  if (isKnown) await ask('health gadget/g -n default --wait 1s', 5, /Gadget cannot be listed since/)
  const other = ground.row('apiextensions.k8s.io/CustomResourceDefinition', 'stones.p3.example.com')
  t.equal((await other())?.z?.reason, 'ListFailed', `${when}: of the kind that answers 500`)
  t.comment(`${when}: ${(await ground.aside()).map(([kind, why]) => `${kind}: ${why}`).join('; ')}`)
}

async function mend(t: Test, ground: UnlistedGround, when: string): Promise<void> {
  await ground.mendAll()
  const since = performance.now()
  const ms = await timed(since, async () => (await ground.aside()).length === 0)
  within(t, `${when}: mended, all are followed`, ms, mendedMs)
  for (const argv of ['queue/first', 'fleet/f', 'stone/good']) {
    const line = `health ${argv} -n default --stable 1s`
    const healthyMs = await timed(since, async () => (await ground.kas(line)).code === 0)
    within(t, `${when}: mended, kas ${line}: 0`, healthyMs, mendedMs)
  }
  const { stdout } = await ground.kas('tree -n default')
  t.match(stdout, /Queue\/first/, `${when}: its rows are there`)
  t.notMatch(stdout, /cannot be listed/, `${when}: nothing is named`)
}

/** @returns ms since then, once it holds */
async function timed(since: number, check: () => Promise<boolean>): Promise<number> {
  await eventually(check, { timeoutMs: patienceMs })
  return Math.round(performance.now() - since)
}

function within(t: Test, what: string, ms: number, mostMs: number): void {
  t.ok(ms <= mostMs, `${what}: ${ms} ms, at most ${mostMs}`)
}
