import t from 'tap'
import { builtInKinds, kindWord, type NamedKind } from '../../../src/kubernetes/kind-words.ts'

const custom = (key: string, plural: string, short: string[] = [], categories: string[] = []): NamedKind => {
  const [group = '', kind = ''] = key.split('/')
  return { key, group, plural, names: { singular: kind.toLowerCase(), short, categories } }
}
const database = custom('example.com/Database', 'databases', ['db'], ['all', 'stores'])
const knative = custom('serving.knative.dev/Service', 'services', ['ksvc'])
const all = [...builtInKinds, database, knative]
const named = (word: string) => {
  const of = kindWord(word)
  return all.filter((kind) => of.names(kind)).map(({ key }) => key)
}

t.test('a kind is named as kubectl takes it', async (t) => {
  const cases: [word: string, keys: string[]][] = [
    ['po', ['Pod']],
    ['Pods', ['Pod']],
    ['POD', ['Pod']],
    ['deploy', ['apps/Deployment']],
    ['deployments.apps', ['apps/Deployment']],
    ['deployments.v1.apps', ['apps/Deployment']],
    ['deployment.batch', []],
    ['apps/Deployment', ['apps/Deployment']],
    ['apps/deployments', []],
    ['svc', ['Service']],
    ['services', ['Service']],
    ['services.serving.knative.dev', ['serving.knative.dev/Service']],
    ['serving.knative.dev/service', ['serving.knative.dev/Service']],
    ['ksvc', ['serving.knative.dev/Service']],
    ['db', ['example.com/Database']],
    ['database.example.com', ['example.com/Database']],
    ['stores', ['example.com/Database']],
    ['crds', ['apiextensions.k8s.io/CustomResourceDefinition']],
    ['nothing', []],
    ['', []],
  ]
  for (const [word, keys] of cases) t.strictSame(named(word), keys, word)
})

t.test('a category names what is of it, of whatever group', async (t) => {
  const kinds = named('all')
  for (const key of ['Pod', 'Service', 'apps/Deployment', 'batch/CronJob', 'example.com/Database']) {
    t.ok(kinds.includes(key), key)
  }
  t.notOk(kinds.includes('ConfigMap'))
})

t.test('no word names two of the kinds that are in every cluster', async (t) => {
  const words = builtInKinds.flatMap(({ plural, names }) => [plural, names.singular, ...names.short])
  for (const word of words) t.equal(kindWord(word).builtIn.length, 1, word)
})
