import t from 'tap'
import { noteOf } from '../../../../dev/start/cluster.ts'
import { linesToTry, screenOf } from '../../../../dev/start/screen.ts'

const ports = { agents: 8250, kubernetes: 8254, agentkOps: 8259, replicas: [] }
const table = ['replica  is', 'kas-0    ready']
const cluster = { kind: 'double', description: 'an embedded API double' } as const
const chosen = { ports, base: 8250, taken: 8154 }
const example = { files: {}, leftOut: ['manifests/2-web.yaml'] }
const inputs = { folder: '.run/2', number: 2, chosen, cluster, example, table, proxied: false }

t.test('the screen says what runs where and which port was taken', async (t) => {
  const screen = screenOf(inputs)
  for (const text of [
    'wss://127.0.0.1:8250',
    'https://127.0.0.1:8254',
    '.run/2/: kas-0.log',
    '  kas-0    ready\n',
    '8154 was taken',
    '--port-base',
    'a clone: .run/2/clusters\n',
    'the clone lacks manifests/2-web.yaml of the example',
  ]) {
    t.ok(screen.includes(text), text)
  }
  for (const line of linesToTry(inputs)) t.ok(screen.includes(`\n  ${line}\n`), line)
})

t.test('a folder of KUBEBUILDER_ASSETS without an API server is said', async (t) => {
  const { note } = noteOf('/nonexistent')
  t.equal(
    note,
    'KUBEBUILDER_ASSETS is /nonexistent: no etcd and kube-apiserver there that can be run, so no real API server',
  )
  t.ok(screenOf({ ...inputs, cluster: { ...cluster, ...noteOf('/nonexistent') } }).includes(`\n           (${note})\n`))
  t.notMatch(screenOf(inputs), 'KUBEBUILDER_ASSETS')
  t.strictSame([noteOf(undefined), noteOf('')], [{}, {}])
})

t.test('the lines name this start, go round a proxy, and watch what the cluster has', async (t) => {
  t.match(linesToTry(inputs)[0], /^KAS_RUN=2 npm run -s kubectl -- /)
  t.match(linesToTry(inputs)[1], /^npm run -s kas -- tree --kubeconfig /)
  t.match(linesToTry({ ...inputs, number: 1 })[0], /^npm run -s kubectl -- /)
  t.match(linesToTry(inputs)[2], /kas -- tree deploy\/broken -n demo --kubeconfig /)
  t.match(linesToTry(inputs)[4], /^\(cd \.run\/2\/clusters && .* git push -q\)$/)
  t.match(
    linesToTry(inputs)[5],
    /gitops status --commit \$\(git -C \.run\/2\/clusters rev-parse HEAD\) --wait 1m --kubeconfig \.run\/2\/kubeconfig$/,
  )
  t.match(linesToTry(inputs)[6], /configmaps\/hello$/)
  t.match(linesToTry(inputs).at(-1), 'pods/clock/log?follow=true')
  t.match(linesToTry({ ...inputs, cluster: { ...cluster, kind: 'real' } }).at(-1), 'namespaces?watch=true')
  const named = { ...inputs, cluster: { ...cluster, kind: 'named' as const }, example: undefined }
  t.equal(linesToTry(named).length, 4, "nothing is brought to somebody's own cluster")
  t.notMatch(linesToTry(inputs)[3], 'noproxy')
  t.match(linesToTry({ ...inputs, proxied: true })[3], "--noproxy '*'")
})
