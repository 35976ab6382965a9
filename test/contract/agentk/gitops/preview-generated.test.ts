import t from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { Seeded } from '../../../support/seeded.ts'
import { followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { askForPreview, nameOf } from './preview-questions.ts'
import { RandomManifests } from './random-manifests.ts'

/** Generated changes: what a preview shows is what the following round does, object for object. */

const changes = Number(process.env.KAS_PREVIEW_CHANGES ?? 8)
/** manifests of a commit at most */
const size = 24
const kinds = [
  ['', 'ConfigMap'],
  ['', 'Secret'],
  ['', 'Service'],
  ['apps', 'Deployment'],
  ['apps', 'StatefulSet'],
  ['batch', 'CronJob'],
  ['networking.k8s.io', 'NetworkPolicy'],
  ['', 'ResourceQuota'],
  ['rbac.authorization.k8s.io', 'Role'],
  ['policy', 'PodDisruptionBudget'],
] as const
const ended: ReadonlySet<Phase> = new Set([Phase.SYNCED, Phase.FAILING, Phase.APPROVAL])

interface Seen {
  readonly uid: string
  /** all but what each apply writes */
  readonly content: string
}

// biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
function contentOf({ metadata, status: _, ...rest }: any): string {
  const { managedFields: _fields, resourceVersion: _version, generation: _generation, ...own } = metadata
  const annotations = { ...own.annotations }
  delete annotations['agent.gitlab.com/digest']
  return JSON.stringify({ ...rest, metadata: { ...own, annotations } })
}

async function objectsOf(ground: Ground): Promise<ReadonlyMap<string, Seen>> {
  const seen = new Map<string, Seen>()
  for (const [group, kind] of kinds) {
    const path = ground.path(keyOf(kind, 'x', 'shop', group)).replace(/\/x$/, '')
    const { body } = await ground.client.json('GET', path, undefined, undefined, { maxBytes: 1 << 24 })
    // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
    for (const item of (body as any).items)
      seen.set(`${kind} shop/${item.metadata.name}`, { uid: item.metadata.uid, content: contentOf(item) })
  }
  return seen
}

/** @returns `changed ConfigMap shop/a`, sorted */
function done(before: ReadonlyMap<string, Seen>, after: ReadonlyMap<string, Seen>): string[] {
  const names = new Set([...before.keys(), ...after.keys()])
  return Array.from(names, (name) => {
    const [old, now] = [before.get(name), after.get(name)]
    if (!old) return `created ${name}`
    if (!now) return `deleted ${name}`
    if (old.uid !== now.uid) return `recreated ${name}`
    return old.content === now.content ? '' : `changed ${name}`
  })
    .filter((text) => text !== '')
    .sort()
}

t.test('generated changes', { skip, timeout: 1_800_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const random = Seeded.for(t)
  const manifests = new RandomManifests(random, 'none.example.com/v1')
  const indexes = Array.from({ length: 44 }, (_, index) => index).filter((index) => index % 11 !== 10)
  const fileOf = (index: number) => {
    const manifest = manifests.manifest(index)
    const marks = random.pick([
      {},
      {},
      {},
      { 'agent.gitlab.com/prune': 'never' },
      { 'agent.gitlab.com/prune': 'confirm' },
      { 'agent.gitlab.com/replace': 'allow' },
    ])
    const metadata = manifest.metadata as Record<string, object | null>
    return JSON.stringify({
      ...manifest,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...marks } },
    })
  }
  /** Returns a file that the API server takes as a new object, but for one in ten. */
  const usualFileOf = async (index: number) => {
    if (random.chance(0.1)) return fileOf(index)
    for (;;) {
      const text = fileOf(index)
      const object = JSON.parse(text)
      const [, kind = '', group = ''] = [object.apiVersion, object.kind, object.apiVersion.split('/').at(-2) ?? '']
      const path = ground.path(keyOf(kind, 'trial', 'shop', group))
      const trial = { ...object, metadata: { ...object.metadata, name: 'trial' } }
      const contentType = 'application/apply-patch+yaml'
      const query = '?fieldManager=trial&dryRun=All'
      const { status } = await ground.client.json('PATCH', `${path}${query}`, trial, undefined, { contentType })
      if (status < 300) return text
    }
  }
  let files: Record<string, string> = { 'always.json': mapOf('always') }
  const block = { prune_limit: '100%' } as const
  const { methods, project, id: source, becomes } = await followSource(t, ground, files, { projectId: 508n, block })
  const actions = new Map<string, number>()
  for (let change = 0; change < changes; change++) {
    const next: Record<string, string> = { ...files, 'always.json': mapOf('always', String(change)) }
    for (const index of random.shuffled(indexes).slice(0, 12)) {
      const file = `m${index}.json`
      if (next[file] !== undefined && random.chance(0.4)) delete next[file]
      else if (next[file] !== undefined || Object.keys(next).length < size) next[file] = await usualFileOf(index)
    }
    const before = await objectsOf(ground)
    const { objects, end } = await askForPreview(methods(), next, { source })
    t.same(await objectsOf(ground), before, 'a preview changes nothing')
    project.push(next)
    const state = await becomes((now) => now.wanted === project.commit && ended.has(now.phase))
    const refused = end.refusal !== undefined
    t.notOk(refused, JSON.stringify(end.refusal))
    const after = await objectsOf(ground)
    const named = objects.filter(({ action }) => action !== 'drifted')
    for (const { action } of named) actions.set(action, (actions.get(action) ?? 0) + 1)
    const acting = named.filter(({ action }) => !['fails', 'waits', 'stays'].includes(action)).map(nameOf)
    t.strictSame(acting.sort(), done(before, after), `change ${change}`)
    const failing = named.filter(({ action }) => action === 'fails').length
    t.equal(failing > 0, state.phase === Phase.FAILING, `${failing} fail in change ${change}`)
    files = next
  }
  t.comment(JSON.stringify(Object.fromEntries(actions)))
})
