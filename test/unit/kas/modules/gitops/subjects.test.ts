import t from 'tap'
import { addSubjects, rowFor, type Subject } from '../../../../../src/kas/modules/gitops/subjects.ts'

const key = (kind: string, namespace: string, name: string, group = '') => ({
  group,
  version: 'v1',
  kind,
  namespace,
  name,
})
const row = {
  source: '42-7',
  phase: 'FAILING',
  problem: 'ConfigMap shop/settings could not be deleted: denied',
  counts: { objects: 9 },
  trouble: [
    { key: key('Deployment', 'shop', 'web', 'apps'), text: 'too large', file: 'web.yaml', line: 3 },
    { text: 'no YAML', file: 'bad.yaml', line: 1 },
  ],
  leaving: [{ key: key('Namespace', '', 'old'), code: 'kind', text: 'with it goes Secret old/token' }],
  kept: [{ key: key('ConfigMap', 'shop', 'settings'), code: '', text: 'denied' }],
  drifted: [
    { key: key('Deployment', 'shop', 'web', 'apps'), kind: 'drifted' },
    { key: key('Deployment', 'other', 'api', 'apps'), kind: 'drifted' },
  ],
  planned: [key('Namespace', '', 'old')],
  orphan: [key('Secret', 'shop', 'left')],
}

/** Returns the row for a caller who may get these: kind and namespace. */
function shownTo(...may: readonly string[]) {
  const subjects = new Map<string, Subject>()
  addSubjects(row, subjects)
  const allowed = [...subjects].flatMap(([text, { kind, namespace }]) => {
    return may.includes(`${kind} ${namespace}`.trim()) ? [text] : []
  })
  return rowFor(row, { allowed: new Set(allowed), problem: '' })
}

const everything = ['Deployment shop', 'Deployment other', 'Namespace', '* old', 'ConfigMap shop', 'Secret shop']

t.test('who may get all sees all', async (t) => {
  t.strictSame(shownTo(...everything), row)
})

t.test('who may get nothing sees no name of an object, and how many there are', async (t) => {
  const shown = shownTo()
  const text = JSON.stringify(shown)
  for (const name of ['web"', 'settings', 'old', 'token', 'left', 'api']) t.notMatch(text, name)
  t.match(shown, { phase: 'FAILING', counts: { objects: 9 }, withheld: 5, trouble: [{ file: 'bad.yaml' }] })
  t.equal(shown.problem, 'its text names objects that you may not get')
})

t.test('a right in one namespace shows nothing of another', async (t) => {
  const shown = shownTo('Deployment shop', 'ConfigMap shop')
  t.strictSame(
    shown.drifted.map((one) => one.key.namespace),
    ['shop'],
  )
  t.match(shown, { kept: [{ key: { name: 'settings' } }], leaving: [], planned: [], orphan: [], withheld: 3 })
  t.equal(shown.problem, row.problem, 'the named object is one that its reader may get')
})

t.test('a text about one object does not name another that its reader may not get', async (t) => {
  const secret = key('Secret', 'vault', 'db-main')
  const texts = ['waits: Secret vault/db-main has failed: no', 'x "db-main" not found', 'needs db-main.', 'db-main: no']
  for (const text of texts) {
    const of = {
      problem: text,
      trouble: [
        { key: key('Deployment', 'shop', 'web', 'apps'), text },
        { key: secret, text: 'denied' },
      ],
    }
    const allowed = new Set([JSON.stringify(['apps', 'Deployment', 'shop'])])
    const shown = rowFor(of, { allowed, problem: '' })
    t.notMatch(JSON.stringify(shown), /db-main/, text)
    t.match(shown, { withheld: 1, trouble: [{ key: { name: 'web' }, text: /names objects that you may not get/ }] })
    allowed.add(JSON.stringify(['', 'Secret', 'vault']))
    t.strictSame(rowFor(of, { allowed, problem: '' }), of)
  }
})

t.test('a problem that names an object of no list is for who may get that object', async (t) => {
  const own = JSON.stringify(['apps', 'Deployment', 'shop'])
  for (const [problem, subject] of [
    ['Secret vault/db-main: kubectl had changed data: it is as in Git again', ['', 'Secret', 'vault']],
    [
      'Deployment.apps shop/web: a; Certificate.cert-manager.io vault/tls: b',
      ['cert-manager.io', 'Certificate', 'vault'],
    ],
    [
      'source 42-8 wants ClusterRole.rbac.authorization.k8s.io viewer as well',
      ['rbac.authorization.k8s.io', 'ClusterRole', ''],
    ],
    ['Namespace old could not be deleted: denied', ['', 'Namespace', '']],
  ] as const) {
    const of = { problem, trouble: [] }
    const subjects = new Map<string, Subject>()
    addSubjects(of, subjects)
    const text = JSON.stringify(subject)
    t.ok(subjects.has(text), problem)
    t.equal(rowFor(of, { allowed: new Set([own]), problem: '' }).problem, 'its text names objects that you may not get')
    t.strictSame(rowFor(of, { allowed: new Set([own, text]), problem: '' }), of)
  }
  const many = Array.from({ length: 52 }, (_, i) => `Secret vault/s${i}`).join()
  const allowed = new Set([JSON.stringify(['', 'Secret', 'vault'])])
  t.match(rowFor({ problem: many }, { allowed, problem: '' }).problem, /you may not get/)
})

t.test('a problem that names no object is for everybody', async (t) => {
  for (const problem of [
    'web.yaml:3: unknown key "pth". Did you mean "paths"?',
    'kas does not answer: Connection refused by 10.0.0.1:443/tcp',
    'json: cannot unmarshal string into Go struct field Deployment.spec.replicas of type int32',
    'the API server answered 503: The server is away',
    'replicas of others are left as they are in namespace shop: the account cannot list horizontalpodautoscalers (403)',
    ...['Aa.', 'A.a', 'A', 'Aa ', 'Namespace/'].map((part) => ''.padEnd(16 * 1024, part)),
  ]) {
    t.strictSame(rowFor({ problem }, { allowed: new Set(), problem: '' }), { problem })
  }
})

t.test('a text stays that has no more than part of a name, and a long one takes no time', async (t) => {
  const text = 'webhook "a.web-hooks" denied it'
  const of = { problem: text, trouble: [{ text }, { key: key('Secret', 'vault', 'web'), text: '' }] }
  t.match(rowFor(of, { allowed: new Set(), problem: '' }), { problem: text, trouble: [{ text }] })
  const odd = { problem: 'it is "a (b)"', planned: [key('Role', 'vault', 'a (b)')] }
  t.match(rowFor(odd, { allowed: new Set(), problem: '' }), { problem: /you may not get/ })
  const many = Array.from({ length: 100 }, (_, i) => key('Secret', 'vault', `a${i}`))
  const long = { problem: ''.padEnd(16 * 1024, '.:'), planned: many }
  t.match(rowFor(long, { allowed: new Set(), problem: '' }), { problem: long.problem })
})

t.test('a right to namespaces alone does not show what is in them', async (t) => {
  const [old] = shownTo('Namespace').leaving
  t.match(old, { key: { name: 'old' }, text: '' })
  t.equal(shownTo('Namespace', '* old').leaving[0]?.text, 'with it goes Secret old/token')
})

t.test('a definition is shown without the names of its objects', async (t) => {
  const crd = key('CustomResourceDefinition', '', 'things.example.com', 'apiextensions.k8s.io')
  const of = { leaving: [{ key: crd, text: 'with it go Thing shop/one' }] }
  const subjects = new Map<string, Subject>()
  addSubjects(of, subjects)
  t.strictSame([...subjects.values()].at(-1), { group: '*', kind: '*', namespace: '' })
  const [own = ''] = subjects.keys()
  t.match(rowFor(of, { allowed: new Set([own]), problem: '' }).leaving, [{ key: crd, text: '' }])
})

t.test('bad input: rows without lists, kinds with separators in their names, and far too many subjects', async (t) => {
  t.strictSame(rowFor({ source: '42-7' }, { allowed: new Set(), problem: '' }), { source: '42-7' })
  const one = { planned: [key('A B', 'c', 'x')] }
  const two = { planned: [key('A', 'B c', 'x')] }
  const subjects = new Map<string, Subject>()
  addSubjects(one, subjects)
  addSubjects(two, subjects)
  t.equal(subjects.size, 2, 'they are different subjects')
  const many = { planned: Array.from({ length: 2000 }, (_, i) => key('ConfigMap', `n${i}`, 'x')) }
  addSubjects(many, subjects)
  t.equal(subjects.size, 500)
  t.equal(rowFor(many, { allowed: new Set(subjects.keys()), problem: '' }).planned.length, 498)
})

t.test('the cause of bad health is shown to whoever may get the object that is to blame', async (t) => {
  const own = key('Deployment', 'shop', 'web', 'apps')
  const culprit = key('Pod', 'shop', 'web-1-x')
  const sick = { key: own, word: 'degraded', culprit, reason: 'ImageNotFound', text: 'no image', since_ms: '1' }
  const bare = { key: own, word: 'missing', reason: '', text: '', since_ms: '0' }
  const unhealthy = [sick, bare]
  const subjects = new Map<string, Subject>()
  addSubjects({ unhealthy }, subjects)
  const [ofOwn = '', ofCulprit = ''] = subjects.keys()
  const shown = (...allowed: string[]) => rowFor({ unhealthy }, { allowed: new Set(allowed), problem: '' })
  t.strictSame(shown(ofOwn, ofCulprit), { unhealthy })
  const { culprit: _, ...rest } = sick
  t.strictSame(shown(ofOwn), { unhealthy: [{ ...rest, reason: '', text: '' }, bare] })
  t.match(shown(ofCulprit), { unhealthy: [], withheld: 1 })
})
