import t from 'tap'
import {
  type GitRepository,
  type Receiver,
  readGitRepository,
  readReceiver,
} from '../../../../../src/agentk/modules/flux/flux-objects.ts'
import { receiverManifest } from '../../../../../src/agentk/modules/flux/own-receiver.ts'
import { ReceiverKeeper } from '../../../../../src/agentk/modules/flux/receiver-keeper.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const apis = { repositories: 'source.toolkit.fluxcd.io/v1', receivers: 'notification.toolkit.fluxcd.io/v1' }

function wantedOf(name: string) {
  const object = { metadata: { name, namespace: 'apps', uid: `uid-${name}` }, spec: { url: 'https://gitlab/a/b' } }
  return { repository: readGitRepository(object) as GitRepository, project: 'a/b', agentId: 42n, apis }
}

/** Returns a Receiver as agentk makes it, with changes. */
function receiver(name: string, metadata: object = {}, spec: object = {}): Receiver {
  const made = receiverManifest(wantedOf(name)) as Record<string, object>
  const object = { metadata: { ...made.metadata, ...metadata }, spec: { ...made.spec, ...spec } }
  return readReceiver(object) as Receiver
}

const byKey = (...receivers: Receiver[]) => new Map(receivers.map((each) => [each.key, each]))

/** @param answers - status codes of the API server, in order; 201 after the last one */
function start(answers: number[] = []) {
  const { log, lines } = capturedLog()
  const sent: string[] = []
  const state = { holds: true, endsAfterOne: false }
  const json = async (method: string, path: string, body: unknown) => {
    const { name } = (body as { metadata: { name: string } }).metadata
    sent.push(`${method} ${/(secrets|receivers)/.exec(path)?.[0]} ${name}`)
    if (state.endsAfterOne) state.holds = false
    return { status: answers.shift() ?? 201, body: {} }
  }
  const keeper = new ReceiverKeeper({ client: { json }, holds: () => state.holds, log, clock: new ManualClock() })
  const look = (names: string[], receivers = byKey()) =>
    keeper.reconcile(names.map(wantedOf), receivers, new AbortController().signal)
  return { look, sent, state, says: () => lines.map(({ msg, receiver }) => `${msg} ${receiver}`) }
}

t.test('a pod that does not hold changes nothing, and looks again', async (t) => {
  const { look, sent, state } = start()
  state.holds = false
  t.equal(await look(['web', 'api']), false)
  t.strictSame(sent, [])
  state.holds = true
  t.equal(await look(['web']), true)
  t.strictSame(sent.splice(0), ['POST secrets gitlab-receiver-web', 'POST receivers gitlab-web'])
  const changed = byKey(receiver('web', {}, { type: 'gitlab' }))
  state.holds = false
  await look(['web'], changed)
  state.holds = true
  await look(['web'], changed)
  t.strictSame(sent, ['PATCH receivers gitlab-web'], 'what was not repaired does not count as repaired')
})

t.test('it is asked before each change', async (t) => {
  const { look, sent, state, says } = start()
  state.endsAfterOne = true // the pod stops leading while it makes the Secret
  t.equal(await look(['web', 'api']), false)
  t.strictSame(sent, ['POST secrets gitlab-receiver-web'])
  state.holds = true
  t.equal(await look(['web']), false, 'the last of all, too')
  t.strictSame(sent.slice(1), ['POST secrets gitlab-receiver-web'])
  t.strictSame(says(), [])
})

t.test('a repair that was left is made when the pod holds again', async (t) => {
  const { look, sent, state, says } = start()
  const broken = { ...receiver('web', {}, { type: 'gitlab' }), isBroken: true }
  state.endsAfterOne = true // the pod stops leading while it makes the Secret
  t.equal(await look(['web'], byKey(broken)), false)
  state.holds = true
  state.endsAfterOne = false
  t.equal(await look(['web'], byKey(broken)), true)
  t.strictSame(sent, [
    'POST secrets gitlab-receiver-web',
    'POST secrets gitlab-receiver-web',
    'PATCH receivers gitlab-web',
  ])
  t.strictSame(says(), ['Repaired a Receiver apps/gitlab-web'])
})

t.test('what is there already was not made', async (t) => {
  const { look, sent, says } = start([409, 409, 409, 201])
  t.equal(await look(['web', 'api']), true)
  t.equal(sent.length, 4)
  t.strictSame(says(), ['Made a Receiver apps/gitlab-api'])
})

t.test('a Receiver of ours that has no owner is nobody’s: another is made beside it', async (t) => {
  const { look, sent, says } = start()
  await look(['web'], byKey(receiver('web', { ownerReferences: [] })))
  t.match(sent, ['POST secrets gitlab-receiver-web', /^POST receivers gitlab-web-[0-9a-f]{10}$/])
  t.match(says(), [/^Made a Receiver apps\/gitlab-web-[0-9a-f]{10}$/])
  sent.length = 0
  const name = says()[0]?.split('/')[1]
  await look(['web'], byKey(receiver('web', { ownerReferences: [] }), receiver('web', { name })))
  t.strictSame(sent, [], 'that one is its own')
  const ofOld = receiver('web', { ownerReferences: [{ uid: 'uid-old', controller: true }] })
  await look(['web'], byKey(ofOld))
  t.strictSame(sent, [], 'one whose owner is gone goes with it')
})

t.test('each GitRepository is looked at for itself', async (t) => {
  const { look, sent } = start()
  const named = (...names: string[]) => names.map((name) => ({ kind: 'GitRepository', name }))
  const both = receiver('x', { name: 'both', annotations: {} }, { resources: named('one', 'two', 'two') })
  const elsewhere = {
    ...receiver('y', { name: 'else', annotations: {} }, { resources: named('three') }),
    namespace: 'b',
  }
  const gitlab = receiver('z', { name: 'gitlab', annotations: {} }, { type: 'gitlab', resources: named('four') })
  const changed = receiver('five', {}, { type: 'gitlab' })
  await look(['one', 'two', 'three', 'four', 'five', 'six'], byKey(both, elsewhere, gitlab, changed, receiver('six')))
  t.strictSame(
    sent.filter((each) => !each.includes('secrets')),
    ['POST receivers gitlab-three', 'POST receivers gitlab-four', 'PATCH receivers gitlab-five'],
  )
})
