import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ClusterAccess } from '../../../../src/agentk/cluster/cluster-access.ts'
import { loadCluster } from '../../../../src/agentk/cluster/load-cluster.ts'
import { loadKubeconfig } from '../../../../src/lib/kubeconfig.ts'

const folder = t.testdir({
  config: `
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: dev
  cluster: { server: "https://127.0.0.1:6443/base/", certificate-authority: certs/ca.pem, tls-server-name: api }
- name: other
  cluster: { server: "https://other", insecure-skip-tls-verify: true, certificate-authority-data: ${Buffer.from('CA').toString('base64')} }
users:
- name: admin
  user: { client-certificate: certs/admin.pem, client-key-data: ${Buffer.from('KEY').toString('base64')} }
- name: robot
  user: { tokenFile: token, as: someone, as-groups: [x, y] }
- name: plugin
  user: { exec: { command: aws } }
contexts:
- name: dev
  context: { cluster: dev, user: admin, namespace: apps }
- name: other
  context: { cluster: other, user: robot }
- name: plugin
  context: { cluster: dev, user: plugin }
`,
  certs: { 'ca.pem': 'CA-FILE', 'admin.pem': 'CERT-FILE' },
  token: 'first\n',
})
const file = join(folder, 'config')

t.test('the current context, with paths relative to the file', async (t) => {
  const access = new ClusterAccess(await loadKubeconfig([file], {}))
  t.equal(access.server.href, 'https://127.0.0.1:6443/base/')
  t.same(access.tls(), { ca: 'CA-FILE', cert: 'CERT-FILE', key: 'KEY', servername: 'api' })
  t.equal(access.tls(), access.tls(), 'the same object while nothing changes')
  t.equal(access.authorization(), undefined)
})

t.test('another context by flag; a token file is read again', async (t) => {
  const access = new ClusterAccess(await loadKubeconfig([file], { context: 'other' }))
  t.same(access.tls(), { ca: 'CA', rejectUnauthorized: false })
  t.equal(access.authorization(), 'Bearer first')
  t.match(access.impersonation, { username: 'someone', groups: ['x', 'y'] })
  t.notOk(access.refresh())
  writeFileSync(join(folder, 'token'), 'second one\n')
  t.ok(access.refresh())
  t.equal(access.authorization(), 'Bearer second one')
})

t.test('a file that goes away keeps its last text', async (t) => {
  mkdirSync(join(folder, 'gone'))
  const path = join(folder, 'gone', 'token')
  writeFileSync(path, 'kept')
  const access = new ClusterAccess({ server: 'http://x', token: { file: path } })
  t.equal(access.authorization(), 'Bearer kept')
  rmSync(path)
  t.notOk(access.refresh())
  t.equal(access.authorization(), 'Bearer kept')
})

t.test('flags win', async (t) => {
  const flags = { server: 'other:1234', token: 'given', as: 'me', asGroup: ['g'] }
  const access = new ClusterAccess(await loadKubeconfig([file], flags))
  t.equal(access.server.href, 'https://other:1234/')
  t.equal(access.authorization(), 'Bearer given')
  t.match(access.impersonation, { username: 'me', groups: ['g'] })
})

t.test('what is wrong is named', async (t) => {
  await t.rejects(loadKubeconfig([join(folder, 'none')], {}), /Cannot read kubeconfig .*none/)
  await t.rejects(loadKubeconfig([file], { context: 'prod' }), /no context "prod"; it has: dev, other, plugin$/)
  await t.rejects(loadKubeconfig([file], { context: 'plugn' }), /it has: dev, other, plugin\. Did you mean plugin\?/)
  await t.rejects(loadKubeconfig([file], { context: 'plugin' }), /"plugin" .* from a program/)
})

t.test('only a cluster that was named', async (t) => {
  await t.rejects(loadCluster({}, { HOME: folder }), /No cluster is named/)
  const named = await loadCluster({}, { KUBECONFIG: file })
  t.equal(named.server.port, '6443')
  const env = { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' }
  const own = await loadCluster({ as: 'me' }, env)
  t.equal(own.server.href, 'https://10.0.0.1/')
  t.match(own.impersonation, { username: 'me' })
})
