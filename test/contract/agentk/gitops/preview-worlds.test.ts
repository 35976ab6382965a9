import t from 'tap'
import { Seeded } from '../../../support/seeded.ts'
import { followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { allow, askForPreview, RecordingClient } from './preview-questions.ts'

/**
 * Generated worlds: an answer is the same, byte for byte, whether an object that the caller may not get exists, does not,
 * or has the content that the caller guessed.
 */

const worlds = Number(process.env.KAS_PREVIEW_WORLDS ?? 20)
const core = (...resources: string[]) => ({ apiGroups: [''], resources })

/** Something hidden in one world: its parts in Git, and its states in the cluster. */
interface Hidden {
  readonly files: Readonly<Record<string, string>>
  /** makes it exist, with other content than in Git */
  readonly exist: () => Promise<void>
  /** gives it the content of Git */
  readonly guess: () => Promise<void>
}

t.test('hidden worlds', { skip, timeout: 1_800_000 }, async (t) => {
  const ground = await Ground.start(t)
  const client = RecordingClient.start(t, ground)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  await allow(ground, 'maps', [core('configmaps', 'namespaces')])
  await allow(ground, 'wide', [core('configmaps')], '')
  await allow(ground, 'spaces', [core('namespaces', 'services')], '')
  await allow(ground, 'named', [{ ...core('configmaps'), resourceNames: ['a'] }])
  const random = Seeded.for(t)
  const space = {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'space', annotations: { 'agent.gitlab.com/prune': 'allow' } },
  }
  const own = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'own', namespace: 'space' } }
  const spaces = { 'space.json': JSON.stringify(space), 'space-own.json': JSON.stringify(own) }
  const files = { 'a.json': mapOf('a'), 'b.json': mapOf('b'), ...spaces }
  const { methods, id: source } = await followSource(t, ground, files, { projectId: 509n, client })
  const callers = ['maps', 'wide', 'spaces', 'named', 'nobody'] as const

  const secret = (name: string): Hidden => {
    const key = keyOf('Secret', name)
    const object = (value: string, metadata: object = {}) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, ...metadata },
      data: { password: Buffer.from(value).toString('base64') },
    })
    const value = `guess-${random.int(1000)}`
    return {
      files: { [`${name}.json`]: JSON.stringify(object(value)) },
      exist: () => ground.create(key, object('other', { namespace: 'shop' })),
      guess: () => ground.merge(key, { data: object(value).data }),
    }
  }
  /** A ConfigMap of a name that the caller may not get. */
  const map = (name: string): Hidden => ({
    files: { [`${name}.json`]: mapOf(name, 'guess') },
    exist: () =>
      ground.create(keyOf('ConfigMap', name), { metadata: { name, namespace: 'shop' }, data: { value: 'other' } }),
    guess: () => ground.merge(keyOf('ConfigMap', name), { data: { value: 'guess' } }),
  })
  const namespace = (name: string): Hidden => ({
    files: {
      ...(random.chance(0.5) && { [`${name}.yaml`]: `{apiVersion: v1, kind: Namespace, metadata: {name: ${name}}}` }),
      [`${name}-in.json`]: mapOf('inside', 'x', { namespace: name }),
    },
    exist: () => ground.create(keyOf('Namespace', name, ''), { metadata: { name } }),
    guess: () => ground.merge(keyOf('Namespace', name, ''), { metadata: { labels: { team: 'a' } } }),
  })
  const owner = (name: string): Hidden => ({
    files: {
      [`${name}-of.json`]: mapOf(`${name}-of`, 'x', {
        ownerReferences: [{ apiVersion: 'v1', kind: 'Secret', name, uid: '11111111-1111-4111-8111-111111111111' }],
      }),
    },
    exist: () => ground.create(keyOf('Secret', name), { metadata: { name, namespace: 'shop' } }),
    guess: () => ground.merge(keyOf('Secret', name), { data: { a: 'eA==' } }),
  })
  /** Content of a namespace that leaves Git. */
  const content = (name: string): Hidden => ({
    files: { 'space.json': '', 'space-own.json': '' },
    exist: () => ground.create(keyOf('Secret', name, 'space'), { metadata: { name, namespace: 'space' } }),
    guess: () => ground.merge(keyOf('Secret', name, 'space'), { data: { a: 'eA==' } }),
  })
  /** Which of them each caller may not get. */
  const hiddenFor = {
    maps: [secret, namespace, owner],
    wide: [secret, namespace, owner],
    spaces: [secret, map, owner, content, content],
    named: [secret, map, namespace, owner],
    nobody: [secret, map, namespace, owner, content],
  }

  for (let world = 0; world < worlds; world++) {
    const as = random.pick(callers)
    const makers = random.shuffled(hiddenFor[as]).slice(0, 1 + random.int(3))
    const all = makers.map((make, i) => make(`w${world}-${i}`))
    const change = random.chance(0.5) ? { 'a.json': mapOf('a', String(world)) } : {}
    const gone: Record<string, string> = random.chance(0.3) ? { 'a.json': files['a.json'], ...spaces } : files
    const git = Object.assign({}, gone, change, ...all.map((one) => one.files)) as Record<string, string>
    for (const [file, text] of Object.entries(git)) if (text === '') delete git[file]
    const values = random.chance(0.5)
    let next = 0
    const ask = async () => {
      const auditId = `w${world}-${next++}`
      const { text } = await askForPreview(methods(), git, { source, as, auditId, values })
      // rights are kept for a minute: the first preview has asked
      const sent = client.of(auditId).filter((call) => !call.includes('/selfsubject'))
      return { text: text.replace(/"atMs":"\d+"/, ''), sent: sent.sort() }
    }
    const absent = await ask()
    for (const one of all) await one.exist()
    const existing = await ask()
    for (const one of all) await one.guess()
    const guessed = await ask()
    const what = `world ${world}: ${as}, ${makers.map((make) => make.name).join(', ')}`
    t.equal(existing.text, absent.text, what)
    t.equal(guessed.text, absent.text, what)
    t.strictSame([existing.sent, guessed.sent], [absent.sent, absent.sent], `${what}: the requests are the same`)
  }
})
