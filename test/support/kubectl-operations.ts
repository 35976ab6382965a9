import assert from 'node:assert/strict'
import type { KubectlOperation, KubectlSide } from './kubectl-side.ts'

/** Operations on objects; each builds on the ones before. */
export const objectOperations: readonly KubectlOperation[] = [
  {
    name: 'apply',
    run: async ({ kubectl }) => kubectl.ok(['apply', '-f', '-'], { stdin: deployment(2) }),
  },
  {
    name: 'rollout status',
    async run({ kubectl }) {
      const said = await kubectl.ok(['rollout', 'status', 'deployment/web', '--timeout=25s'])
      assert.match(said, /successfully rolled out/)
      return said.trimEnd().split('\n').at(-1) ?? ''
    },
  },
  {
    name: 'get',
    async run({ kubectl }) {
      const [head, row] = (await kubectl.ok(['get', 'deployments'])).split('\n')
      assert.match(head ?? '', /^NAME +READY +UP-TO-DATE +AVAILABLE +AGE$/)
      assert.match(row ?? '', /^web +2\/2 +2 +2 +/)
      return kubectl.ok(['get', 'deployment', 'web', '-o', 'jsonpath={.metadata.labels} {.spec} {.status.replicas}'])
    },
  },
  {
    name: 'get, absent',
    async run({ kubectl }) {
      const { code, stderr } = await kubectl.run(['get', 'configmap', 'absent'])
      assert.equal(code, 1)
      assert.equal(stderr, 'Error from server (NotFound): configmaps "absent" not found\n')
      return stderr
    },
  },
  {
    name: 'describe',
    async run({ kubectl }) {
      const said = await kubectl.ok(['describe', 'deployment', 'web'])
      assert.match(said, /^Replicas: +2 desired \| 2 updated \| 2 total \| 2 available/m)
      assert.match(said, /ScalingReplicaSet/)
      return said
        .split('\n')
        .flatMap((line) => line.match(/^ *(\S[^:]*):/)?.[1] ?? [])
        .join(' ')
    },
  },
  {
    name: 'apply, changed',
    async run({ kubectl }) {
      const said = await kubectl.ok(['apply', '-f', '-'], { stdin: deployment(1) })
      assert.equal(said, 'deployment.apps/web configured\n')
      return replicas(kubectl)
    },
  },
  {
    name: 'server-side apply',
    async run({ kubectl }) {
      const args = ['apply', '--server-side', '--force-conflicts', '-f', '-']
      assert.equal(await kubectl.ok(args, { stdin: deployment(3) }), 'deployment.apps/web serverside-applied\n')
      return replicas(kubectl)
    },
  },
  {
    name: 'server-side apply, conflict',
    async run({ kubectl }) {
      const args = ['apply', '--server-side', '--field-manager=other', '-f', '-']
      const { code, stderr } = await kubectl.run(args, { stdin: deployment(4) })
      assert.equal(code, 1)
      assert.match(stderr, /conflict with "kubectl"/)
      assert.match(stderr, /\.spec\.replicas/)
      return stderr
    },
  },
  {
    name: 'diff',
    needs: ['diff'],
    async run({ kubectl }) {
      const other = await kubectl.run(['diff', '-f', '-'], { stdin: deployment(5) })
      assert.equal(other.code, 1)
      assert.match(other.stdout.toString(), /^-\s+replicas: 3$/m)
      assert.match(other.stdout.toString(), /^\+\s+replicas: 5$/m)
      const same = await kubectl.run(['diff', '-f', '-'], { stdin: deployment(3) })
      assert.equal(same.code, 0)
      return `${other.code} ${same.code}`
    },
  },
  ...(['strategic', 'merge', 'json'] as const).map((type) => ({
    name: `patch, ${type}`,
    async run({ kubectl }: KubectlSide) {
      const change = { metadata: { annotations: { patched: type } } }
      const json = [{ op: 'add', path: '/metadata/annotations/patched', value: type }]
      const patch = JSON.stringify(type === 'json' ? json : change)
      const output = '--output=jsonpath={.metadata.annotations.patched}'
      const seen = await kubectl.ok(['patch', 'deployment', 'web', `--type=${type}`, `--patch=${patch}`, output])
      assert.equal(seen, type)
      return seen
    },
  })),
  {
    name: 'edit',
    needs: ['sed'],
    async run({ kubectl }) {
      const environment = { KUBE_EDITOR: 'sed -i s/patched:.*/patched:\\ edited/' }
      await kubectl.ok(['edit', 'deployment', 'web'], { environment })
      const seen = await kubectl.ok(['get', 'deployment', 'web', '-o', 'jsonpath={.metadata.annotations.patched}'])
      assert.equal(seen, 'edited')
      return seen
    },
  },
  { name: 'get --watch', run: watches },
]

/** The last operation. */
export const deleteOperation: KubectlOperation = {
  name: 'delete',
  async run({ kubectl }) {
    const said = await kubectl.ok(['delete', 'deployment', 'web'])
    await kubectl.ok(['wait', '--for=delete', 'pod', '--selector=app=web', '--timeout=25s'])
    assert.equal((await kubectl.ok(['get', 'pods', '-o', 'name'])).trim(), '')
    return said.replace(/ from \S+ namespace/, '')
  },
}

/** Watches objects that are changed without kubectl: each change must come while the watch goes on. */
async function watches({ kubectl, admin }: KubectlSide): Promise<string> {
  const path = `/api/v1/namespaces/${kubectl.namespace}/configmaps`
  await admin.create(path, { metadata: { name: 'watched' }, data: { key: 'value' } })
  // kubectl watches a list from its version; it watches one object from when it gets to it, and loses changes before
  const one = ['get', 'configmaps', '--field-selector=metadata.name=watched']
  const watch = await kubectl.start([...one, '--watch', '--output-watch-events', '--no-headers', '--label-columns=at'])
  await watch.says(/^ADDED +watched /m)
  for (const at of ['one', 'two', 'three']) {
    const body = { metadata: { labels: { at } } }
    await admin.request(`${path}/watched`, { method: 'PATCH', contentType: 'application/merge-patch+json', body })
    await watch.says(new RegExp(`^MODIFIED +watched .* ${at}$`, 'm'))
  }
  await admin.request(`${path}/watched`, { method: 'DELETE' })
  await watch.says(/^DELETED +watched .* three\n/m)
  watch.signal('SIGKILL')
  await watch.exited
  return watch.stdout.replaceAll(/ +\d+s +/g, ' ') // their age
}

const replicas = async (kubectl: KubectlSide['kubectl']) =>
  kubectl.ok(['get', 'deployment', 'web', '-o', 'jsonpath={.spec.replicas}'])

/** a Deployment as JSON, which is YAML */
export const deployment = (replicas: number): string =>
  JSON.stringify({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', labels: { app: 'web' } },
    spec: {
      replicas,
      selector: { matchLabels: { app: 'web' } },
      template: {
        metadata: { labels: { app: 'web' } },
        spec: { containers: [{ name: 'web', image: 'none', ports: [{ containerPort: 80 }] }] },
      },
    },
  })
