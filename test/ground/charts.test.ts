import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { type Expectation, expectations, renderExpected } from '../../dev/charts/expected.ts'
import { chartsFolder } from '../../dev/charts/helm.ts'
import { plainManifests } from '../../dev/charts/manifests.ts'
import { helmProgram, rendered, runHelm, skip } from '../support/charts/chart-words.ts'
import { manifestsFolder, objectsOf } from '../support/manifests.ts'

/** Rendered charts equal the recorded ones, without a cluster. test/e2e/charts.test.ts installs them. */

const root = join(import.meta.dirname, '../..')
const charts = ['kas', 'agentk'] as const
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const program = helmProgram ?? ''

t.test('the charts are of the version of the programs', async (t) => {
  const { version } = JSON.parse(read(root, 'package.json'))
  for (const chart of charts) t.match(parse(read(chartsFolder, chart, 'Chart.yaml')), { version, appVersion: version })
})

t.test('each key of the values is one that the schema knows', async (t) => {
  for (const chart of charts) {
    const schema = JSON.parse(read(chartsFolder, chart, 'values.schema.json'))
    t.strictSame(unknownKeys(parse(read(chartsFolder, chart, 'values.yaml')), schema), [], chart)
  }
})

t.test('helm has nothing to say against them', { skip }, async (t) => {
  for (const chart of charts) {
    t.match(await runHelm(['lint', '--strict', join(chartsFolder, chart)]), /1 chart\(s\) linted, 0 chart\(s\) failed/)
  }
})

t.test('what they render is written down', { skip }, async (t) => {
  t.equal(expectations().length, 14)
  for (const one of expectations()) {
    await t.test(relative(root, one.values), async (t) => {
      const [first, second] = await Promise.all([renderExpected(program, one), renderExpected(program, one)])
      t.equal(first, read(one.rendered), 'npm run manifests')
      t.equal(first, second, 'rendered twice')
    })
  }
})

t.test('the plain manifests are what the charts render', { skip }, async (t) => {
  for (const [file, text] of await plainManifests(program))
    t.equal(read(manifestsFolder, file), text, `${file}: npm run manifests`)
})

t.test(
  'an old cluster is named at once, and one that is less old gets no field that it does not know',
  { skip },
  async (t) => {
    for (const chart of charts) {
      const values = [join(import.meta.dirname, `../support/charts/${chart}/least.yaml`)]
      const refused = /chart requires kubeVersion: >=1\.25\.0-0 which is incompatible with Kubernetes v1\.24\.17/
      await t.rejects(rendered({ chart, values, kubeVersion: '1.24.17' }), refused)
      t.notMatch(await rendered({ chart, values, kubeVersion: '1.26.3' }), 'unhealthyPodEvictionPolicy')
      t.match(await rendered({ chart, values, kubeVersion: '1.27.1' }), 'unhealthyPodEvictionPolicy: AlwaysAllow')
    }
  },
)

t.test('whatever they are given, they grant and run no more than what is needed', async (t) => {
  for (const one of expectations()) {
    await t.test(relative(root, one.values), async (t) => {
      const objects = objectsOf(read(one.rendered), one.rendered)
      const ofKind = (...kinds: string[]) => objects.filter(({ kind }) => kinds.includes(kind))
      for (const { metadata, rules } of ofKind('Role', 'ClusterRole')) {
        t.notMatch(JSON.stringify(rules), /\*|system:masters/, metadata.name)
      }
      for (const { roleRef } of ofKind('RoleBinding', 'ClusterRoleBinding')) t.not(roleRef.name, 'cluster-admin')
      for (const { spec } of ofKind('Deployment', 'StatefulSet')) {
        const { securityContext, containers } = spec.template.spec
        t.match(securityContext, { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } })
        const least = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } }
        t.match(containers[0].securityContext, least)
        t.notMatch(JSON.stringify(spec.selector), /version|chart/, 'a selector that an upgrade changes')
      }
      t.strictSame(
        ofKind('Secret').map(({ metadata }) => metadata.name),
        givenSecrets(one),
        'no secret is made up',
      )
    })
  }
})

/** Names of secrets whose text is in the values themselves, which only tests do. */
function givenSecrets({ values }: Expectation): string[] {
  const { config } = parse(readFileSync(values, 'utf8'))
  const given = [config?.token && 'reach-token', config?.observability?.tls?.secret?.create && 'agentk-observability']
  return given.filter((name) => typeof name === 'string')
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
}

/** Returns the paths that have a value but no property in the schema. */
function unknownKeys(values: unknown, schema: Schema, path = ''): string[] {
  if (typeof values !== 'object' || values === null || Array.isArray(values)) return []
  if (schema.additionalProperties !== false) return []
  return Object.entries(values).flatMap(([key, value]) => {
    const own = schema.properties?.[key]
    return own ? unknownKeys(value, own, `${path}/${key}`) : [`${path}/${key}`]
  })
}
