import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { type KubernetesObject, listAt, textAt } from '../../src/kubernetes/object.ts'
import { adminClient } from '../support/api-client.ts'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import { extractOlderVersion, withoutOlderVersion } from '../support/older-version.ts'
import { Processes, type TestProcess } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { agentConfiguration, bearerOf } from '../support/stack-directory.ts'

/**
 * Upgrade of agentk from the oldest version that this one works with, and back, as doc/guide/upgrade.md says it, with
 * objects that were changed by hand. `KAS_DRIFTED_OBJECTS=200` changes so many; a multiple of 4.
 */

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
const skip = missing.length > 0 ? `needs ${missing.join(', ')}` : withoutOlderVersion
const objects = Number(process.env.KAS_DRIFTED_OBJECTS ?? 40)
const collection = '/api/v1/namespaces/shop/configmaps'
/** an explanation that is refused, since a busy machine has cost the lease, is repeated after 30 s */
const soon = { timeoutMs: 120_000 }

/** Changes by hand, in turn: what they do to `data`. */
const changes = ['value', 'removed', 'label', 'added'] as const
const changeOf = (index: number) => changes[index % changes.length] as (typeof changes)[number]
const patches: Readonly<Record<(typeof changes)[number], object>> = {
  value: { data: { value: 'by hand' } },
  removed: { data: { more: null } },
  label: { metadata: { labels: { team: 'by-hand' } } },
  added: { data: { added: 'by hand' } },
}
const nameOf = (index: number) => `map-${String(index).padStart(3, '0')}`
const mapOf = (index: number) => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${nameOf(index)}, labels: { team: shop } }
data: { value: "git", more: "git" }
`
const all = Array.from({ length: objects }, (_, index) => mapOf(index)).join('---')

t.test('an upgrade with objects that were changed by hand', { skip, timeout: 400_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const client = adminClient(t, controlPlane)
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  const ca = await readFile(stack.caFile, 'utf8')
  const older = await extractOlderVersion(join(processes.folder, 'older'))
  await client.json('POST', '/api/v1/namespaces', { metadata: { name: 'shop' } })

  const sendTo = async (path: string, body: object, manager: string) => {
    const options = { contentType: 'application/merge-patch+json' }
    const { status } = await client.json('PATCH', `${path}?fieldManager=${manager}`, body, undefined, options)
    if (status !== 200) throw new Error(`${path}: ${status}`)
  }
  const maps = async () => {
    const path = `${collection}?labelSelector=agent.gitlab.com%2Finventory`
    const { body } = await client.json('GET', path, undefined, undefined, { maxBytes: 1 << 24 })
    return listAt(body, 'items') as readonly KubernetesObject[]
  }
  const versions = async () =>
    (await maps()).map(({ metadata }) => `${textAt(metadata, 'name')} ${textAt(metadata, 'resourceVersion')}`)
  /** Counts the objects whose fields differ from Git, by change. */
  const byHand = async () => {
    const found = { value: 0, removed: 0, label: 0, added: 0 }
    for (const object of await maps()) {
      if (textAt(object, 'data.value') !== 'git') found.value += 1
      if (textAt(object, 'data.more') !== 'git') found.removed += 1
      if (textAt(object, 'metadata.labels.team') !== 'shop') found.label += 1
      if (textAt(object, 'data.added') !== '') found.added += 1
    }
    return found
  }
  const changeAll = async () => {
    const indexes = Array.from({ length: objects }, (_, index) => index).values()
    const work = async () => {
      for (const index of indexes)
        await sendTo(`${collection}/${nameOf(index)}`, patches[changeOf(index)], 'kubectl-edit')
    }
    await Promise.all(Array.from({ length: 8 }, work))
  }
  const row = async () => {
    const answer = await httpsGet(`${stack.kubernetesUrl}/gitops/state`, { ca, token: bearerOf('agent') })
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`)
    return JSON.parse(answer.body).sources[0]
  }
  const becomes = (is: (shown: Awaited<ReturnType<typeof row>>) => boolean) =>
    eventually(async () => {
      const shown = await row()
      if (!shown || !is(shown)) throw new Error(JSON.stringify(shown).slice(0, 1000))
    }, soon)
  const configure = (drift?: object) => {
    const source = { id: 'platform/clusters', default_namespace: 'shop', paths: [{ glob: 'manifests/**' }] }
    const gitops = { manifest_projects: [{ ...source, ...(drift && { drift }) }] }
    return stack.repository.push('.gitlab/agents/prod/config.yaml', JSON.stringify({ ...agentConfiguration, gitops }))
  }
  const ended = async (agentk: TestProcess) => {
    agentk.signal('SIGTERM')
    await agentk.exited
  }
  let pods = 0
  const startOlder = () => stack.startAgentk({ main: older('agentk'), args: [], pod: `agentk-${pods++}` })
  const startNewer = () => stack.startAgentk({ args: [], pod: `agentk-${pods++}` })
  const quarter = objects / changes.length
  const allByHand = { value: quarter, removed: quarter, label: quarter, added: quarter }

  await stack.repository.push('manifests/all.yaml', all)
  await configure()
  const first = await startOlder()
  await becomes(({ phase, counts }) => phase === 'SYNCED' && counts.objects === objects)
  await ended(first)

  await t.test('report: nothing is written', async (t) => {
    await changeAll()
    const before = await versions()
    await configure({ mode: 'report', after: '0s' })
    const agentk = await startNewer()
    await becomes(({ phase, counts }) => phase === 'SYNCED' && counts.drifted === objects)
    await stack.repository.push('manifests/more.yaml', mapOf(objects))
    await becomes(({ phase, counts }) => phase === 'SYNCED' && counts.objects === objects + 1)
    await becomes(({ counts }) => counts.drifted === objects)
    t.strictSame((await versions()).slice(0, objects), before)
    await ended(agentk)
  })

  await t.test('back: an older agentk refuses each mode by name, and leaves the objects as they are', async (t) => {
    const before = await versions()
    const agentk = await startOlder()
    const refused = () => (agentk.stderr + agentk.stdout).split('A source of GitOps cannot be used').length - 1
    let count = 0
    for (const drift of [
      { mode: 'report' },
      { mode: 'none' },
      { mode: 'correct', after: '0s' },
      { ignore: [{ paths: ['.data.value'] }] },
    ]) {
      await configure(drift)
      await eventually(() => refused() > count, soon)
      count = refused()
      await becomes(({ phase, reason, next }) => {
        return phase === 'NOT_READY' && reason === 'agent_older' && next === 'update agentk'
      })
    }
    t.strictSame(await versions(), before)
    await configure()
    // without drift it resets at once what it notices
    await eventually(
      async () => isDeepStrictEqual(await byHand(), { value: 0, removed: 0, label: 0, added: quarter }),
      soon,
    )
    await ended(agentk)
  })

  await t.test('and again: what the older one has left is reset after its time, and not before', async (t) => {
    await changeAll()
    await configure({ mode: 'correct', after: '3600s' })
    const before = await versions()
    const agentk = await startNewer()
    await becomes(({ phase, counts }) => phase === 'SYNCED' && counts.drifted === objects)
    t.strictSame(await versions(), before)
    t.strictSame(await byHand(), allByHand)
    await configure({ mode: 'correct', after: '0s', added_by: ['kubectl*'] })
    const asInGit = { value: 0, removed: 0, label: 0, added: 0 }
    await eventually(async () => isDeepStrictEqual(await byHand(), asInGit), soon)
    await becomes(({ phase, counts }) => phase === 'SYNCED' && counts.drifted === 0)
    await ended(agentk)
  })
})
