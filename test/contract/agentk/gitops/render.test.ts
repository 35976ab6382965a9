import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readFiles } from '../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'
import { templateFiles } from '../../../../src/agentk/modules/gitops/render/helm.ts'
import { type Rendered, Renderer } from '../../../../src/agentk/modules/gitops/render/renderer.ts'
import type { RendererOptions } from '../../../../src/agentk/modules/gitops/render/renderer-process.ts'
import { absent } from '../../../support/absent.ts'
import { eventually } from '../../../support/eventually.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { installedRenderers } from '../../../support/renderers.ts'
import { scripted } from './scripted.ts'

/** Programs that render: real ones where installed, and scripts in their place for faults. */

const kubectl = join(process.env.KUBEBUILDER_ASSETS ?? '', 'kubectl')
const cluster = { version: 'v1.35.4', apiVersions: ['apps/v1', 'example.com/v1'] }
const filesOf = (files: Readonly<Record<string, string>>) =>
  Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text) }))
const shop = { 'prod/kustomization.yaml': 'resources: [a.yaml]\nnamePrefix: x-\n', 'prod/a.yaml': 'a: 1\n' }
const byKustomize = { kustomize: { path: 'prod' }, defaultNamespace: 'shop' }
const text = ({ files }: Rendered) => files.map(({ data }) => Buffer.from(data).toString()).join('')

/** Renders with a script in place of kustomize. */
async function byScript(
  t: Test,
  script: string,
  more: Partial<RendererOptions> = {},
  signal = new AbortController().signal,
) {
  const path = await scripted(t, 'kustomize', script)
  return new Renderer({ path, folder: path, ...more }).render(filesOf(shop), byKustomize, cluster, signal)
}
/** Makes a folder for PATH with this script as unshare, and another script as kustomize. */
async function withUnshare(t: Test, script: string): Promise<string> {
  const path = await scripted(t, 'unshare', script)
  await writeFile(join(path, 'kustomize'), '#!/bin/sh\necho a: 1\n', { mode: 0o755 })
  return path
}
const leftOver = async (t: Test) => (await readdir(t.testdirName)).filter((name) => name.startsWith('agentk-render-'))

t.test('plain files pass as they are', async (t) => {
  const files = filesOf(shop)
  const { signal } = new AbortController()
  const rendered = await new Renderer({ path: '' }).render(files, { defaultNamespace: 'shop' }, cluster, signal)
  t.strictSame(rendered, { files, problems: [], notes: [] })
})

t.test('a program that is absent is named', async (t) => {
  const { signal } = new AbortController()
  const renderer = new Renderer({ path: `relative:${t.testdir({ kustomize: 'no program' })}` })
  await t.rejects(renderer.render(filesOf(shop), byKustomize, cluster, signal), {
    message: 'prod: it needs the program kustomize or kubectl, which the PATH of agentk lacks',
  })
  const helm = { helm: { chart: 'c', values: [], release: 'r' }, defaultNamespace: 'shop' }
  await t.rejects(renderer.render(filesOf({ 'c/Chart.yaml': 'name: c' }), helm, cluster, signal), {
    message: 'c: it needs the program helm, which the PATH of agentk lacks',
  })
})

t.test('it has its own folder, and nothing of our environment', async (t) => {
  process.env.KAS_SECRET = 'leaked'
  t.teardown(() => void delete process.env.KAS_SECRET)
  const rendered = await byScript(
    t,
    '/usr/bin/env | /usr/bin/sort | /bin/grep -v ^PWD; /bin/cat prod/a.yaml; echo "$@"',
  )
  t.strictSame(
    rendered.problems.map(({ text }) => text),
    ['it renders differently each time, as random values do'],
    'HOME',
  )
  const same = await byScript(
    t,
    '/usr/bin/env | /bin/grep -vE "^(PWD|HOME|TMPDIR|OLDPWD|_|SHLVL)="; /bin/cat prod/a.yaml; echo "$@"',
  )
  t.equal(
    text(same),
    'HTTPS_PROXY=http://127.0.0.1:1\nHTTP_PROXY=http://127.0.0.1:1\na: 1\nbuild ./prod\n'.split('\n').join('\n'),
  )
  t.strictSame(await leftOver(t), [])
})

t.test('what differs is refused', async (t) => {
  const { files, problems } = await byScript(t, 'echo a: 1; echo b: $$')
  t.strictSame(files, [])
  t.strictSame(problems, [
    { file: 'prod (rendered)', line: 2, text: 'it renders differently each time, as random values do' },
  ])
})

t.test('a failure is told, without our folders', async (t) => {
  const { problems } = await byScript(t, 'echo "no $PWD/prod/b.yaml" >&2; echo half: done; exit 3')
  t.strictSame(problems, [{ file: 'prod', line: 0, text: 'no prod/b.yaml' }])
  const long = await byScript(t, 'i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1')
  t.match(long.problems, [{ text: /^line 0\nline 1\n/ }])
  t.match((await byScript(t, 'echo first >&2; echo >&2; echo inside >&2; exit 2')).problems, [{ text: /^first$/ }])
  t.match((await byScript(t, 'exit 3')).problems, [{ text: 'it ended by code 3' }])
  t.match((await byScript(t, 'kill -9 $$')).problems, [{ text: 'it ended by SIGKILL' }])
  t.strictSame(await leftOver(t), [])
})

t.test('bounds: output, memory, time', async (t) => {
  const yes = 'while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done'
  t.match((await byScript(t, yes, { maxOutputBytes: 10_000 })).problems, [{ text: 'it printed more than 10000 bytes' }])
  const greedy = 'x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done'
  const { problems } = await byScript(t, greedy, { maxMemoryKib: 32 * 1024 })
  t.equal(problems.length, 1)
  t.match(problems, [{ file: 'prod', line: 0, text: /memory|code|SIG/ }])

  const inGo = 'echo "runtime: at 1" >&2; echo "fatal error: runtime: out of memory" >&2; echo goroutine 1 >&2; exit 2'
  t.match((await byScript(t, inGo, { maxMemoryKib: 32 * 1024 })).problems, [
    { text: 'fatal error: runtime: out of memory: it may take 32 MiB' },
  ])

  const clock = new ManualClock()
  const path = await scripted(t, 'kustomize', '/bin/sleep 600 & echo $! > pid; wait')
  const { signal } = new AbortController()
  const rendering = new Renderer({ path, folder: path, timeoutMs: 30_000 }, { clock }).render(
    filesOf(shop),
    byKustomize,
    cluster,
    signal,
  )
  await eventually(async () => {
    const [folder] = await leftOver(t)
    if (!folder || !existsSync(join(path, folder, 'files/pid'))) throw new Error('it has not begun')
  })
  clock.advance(30_000)
  await t.rejects(rendering, { message: 'kustomize did not end within 30 s: it is tried again' })
  t.strictSame(await leftOver(t), [], 'with all that it had started')
})

t.test('a path that no file system takes refuses the commit', async (t) => {
  const path = await scripted(t, 'kustomize', 'echo a: 1')
  const { signal } = new AbortController()
  const render = (name: string, more: Readonly<Record<string, string>> = {}) =>
    new Renderer({ path, folder: path }).render(filesOf({ ...shop, [name]: '', ...more }), byKustomize, cluster, signal)
  const name = 'ä'.repeat(128)
  const { problems } = await render(`prod/${name}`)
  t.strictSame(problems, [{ file: `prod/${name}`, line: 0, text: 'the path has a name of more than 255 bytes' }])
  const long = `${'a'.repeat(200)}/`.repeat(16)
  t.match((await render(`${long}b`)).problems, [{ file: /^a{200}$/, text: 'the path has more than 3072 bytes' }])
  t.match((await render('prod/x', { 'prod/x/y': '' })).problems, [{ file: 'prod/x', text: /that of a folder too/ }])
  const most = `${'a'.repeat(255)}/`.repeat(11)
  t.strictSame((await render(`${most}${'b'.repeat(255)}`)).problems, [])
  t.strictSame(await leftOver(t), [])
})

t.test('what cannot be written names no folder of agentk', async (t) => {
  const path = await scripted(t, 'kustomize', 'echo a: 1')
  const { signal } = new AbortController()
  const folder = join(path, 'absent')
  const rendering = new Renderer({ path, folder }).render(filesOf(shop), byKustomize, cluster, signal)
  await t.rejects(rendering, { message: 'agentk could not write the files for the program: ENOENT' })
})

t.test('without a descriptor left it fails, and agentk lives; later it goes on', async (t) => {
  const path = await withUnshare(t, 'exit 0')
  const program = join(import.meta.dirname, 'no-descriptors-program.ts')
  const limited = ['-c', 'ulimit -n 64; exec "$0" "$@"', process.execPath, program, path]
  const { stdout, stderr, status } = spawnSync('/bin/sh', limited)
  const said = ['spawn /bin/sh EMFILE', 'spawn /bin/sh EMFILE', 'a: 1', 'network kept: undefined, 0 reasons', '']
  t.strictSame([status, stdout.toString().split('\n'), stderr.toString()], [0, said, ''])
})

t.test('who asked may leave', async (t) => {
  const leaving = new AbortController()
  const rendering = byScript(t, '/bin/sleep 600', {}, leaving.signal)
  setImmediate(() => leaving.abort(new Error('left')))
  await t.rejects(rendering, /left/)
  t.strictSame(await leftOver(t), [])
})

t.test('in a small pod one runs at a time; the others wait, and have written nothing', async (t) => {
  const path = await scripted(t, 'kustomize', 'set -- ../../agentk-render-*; echo a: $#')
  const renderer = new Renderer({ path, folder: path, podBytes: 512 * 1024 * 1024 })
  const { signal } = new AbortController()
  const renderings = Array.from({ length: 6 }, () => renderer.render(filesOf(shop), byKustomize, cluster, signal))
  for (const rendered of await Promise.all(renderings))
    t.strictSame([text(rendered), rendered.problems], ['a: 1\n', []])
})

/** Opens a port on loopback. @returns its number, and the number of connections */
async function countingPort(t: Test) {
  const ground = { connections: 0, port: 0 }
  const server = createTcpServer((socket) => {
    ground.connections++
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  ground.port = (server.address() as AddressInfo).port
  return ground
}
const connecting = (port: number) =>
  `exec ${process.execPath} -e 'require("net").connect(${port}, "127.0.0.1").on("close", () => console.log("a: 1")).on("error", () => {})'`

const systemPath = process.env.PATH ?? ''
const hasNamespaces = spawnSync('unshare', ['-rn', 'true']).status === 0
const withNamespaces = hasNamespaces ? {} : { skip: 'unshare may make no namespace here' }

t.test('a program has no network of its own namespace', withNamespaces, async (t) => {
  const ground = await countingPort(t)
  const script = connecting(ground.port)
  const without = await byScript(t, script, { path: `${await scripted(t, 'kustomize', script)}:${systemPath}` })
  t.strictSame([text(without), without.problems, without.notes], ['a: 1\n', [], []])
  t.equal(ground.connections, 0)
  const kept = await byScript(t, script)
  t.equal(text(kept), 'a: 1\n')
  t.equal(ground.connections, 2, 'it connects where it can')

  const path = `${await scripted(t, 'kustomize', '/bin/sleep 600 & echo $! > pid; wait')}:${systemPath}`
  const leaving = new AbortController()
  const folder = t.testdirName
  const rendering = new Renderer({ path, folder }).render(filesOf(shop), byKustomize, cluster, leaving.signal)
  const pid = await eventually(async () => {
    const [base = ''] = await leftOver(t)
    const pid = Number(await readFile(join(folder, base, 'files/pid'), 'utf8'))
    if (!pid) throw new Error('it has not begun')
    return pid
  })
  leaving.abort(new Error('left'))
  await t.rejects(rendering, /left/)
  await eventually(() => {
    if (existsSync(`/proc/${pid}/exe`)) throw new Error('what it has started goes on')
  })
})

t.test('where no namespace can be made, it says so', async (t) => {
  const lacking = await byScript(t, 'echo a: 1')
  const note = 'the program that renders keeps the network: the PATH of agentk lacks unshare'
  t.strictSame([text(lacking), lacking.notes], ['a: 1\n', [note]])

  const refusing = 'echo "unshare: unshare failed: Operation not permitted" >&2; exit 1'
  const reasons: string[] = []
  const path = await withUnshare(t, refusing)
  const renderer = new Renderer({ path, folder: path, onNetworkKept: (reason) => reasons.push(reason) })
  const { signal } = new AbortController()
  const render = () => renderer.render(filesOf(shop), byKustomize, cluster, signal)
  const kept = 'the program that renders keeps the network: unshare: unshare failed: Operation not permitted'
  for (const { notes, problems } of await Promise.all([render(), render()]))
    t.strictSame([notes, problems], [[kept], []])
  t.strictSame(reasons, ['unshare: unshare failed: Operation not permitted'], 'once')
})

t.test('a namespace that is missing later refuses no commit', async (t) => {
  const used = 'case "$2" in /bin/sh) ;; *) echo "unshare: unshare failed: No space left on device" >&2; exit 1 ;; esac'
  const path = await withUnshare(t, used)
  const rendering = new Renderer({ path, folder: path }).render(
    filesOf(shop),
    byKustomize,
    cluster,
    new AbortController().signal,
  )
  await t.rejects(rendering, { message: 'unshare: unshare failed: No space left on device' })
})

const withKubectl = existsSync(kubectl) ? {} : { skip: 'KUBEBUILDER_ASSETS has no kubectl' }
t.test('kustomize of kubectl', withKubectl, async (t) => {
  const path = t.testdir({})
  await symlink(kubectl, join(path, 'kubectl'))
  const render = (files: Readonly<Record<string, string>>) =>
    new Renderer({ path }).render(filesOf(files), byKustomize, cluster, new AbortController().signal)
  const base = {
    'base/kustomization.yaml': 'resources: [map.yaml]\n',
    'base/map.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\ndata: { b: "1" }\n',
    'prod/kustomization.yaml':
      'resources: [../base]\nnamePrefix: x-\nconfigMapGenerator: [{ name: gen, files: [a.txt], options: { disableNameSuffixHash: true } }]\n',
    'prod/a.txt': 'hello\n',
  }
  const rendered = await render(base)
  t.strictSame(rendered.problems, [])
  t.match(readFiles(rendered.files).documents, [
    { file: 'prod (rendered)', object: { metadata: { name: 'x-a' }, data: { b: '1' } } },
    { object: { metadata: { name: 'x-gen' }, data: { 'a.txt': 'hello\n' } } },
  ])
  t.match(await render({ ...base, 'base/map.yaml': 'kind: ConfigMap' }), { problems: [{ file: 'prod', text: /base/ }] })

  await t.test('a message that may quote a Secret is not shown', async (t) => {
    const hidden =
      'kubectl fails. Its message may quote a Secret, and is not shown: `kubectl kustomize ./prod` prints it'
    const secret = 'apiVersion: v1\nkind: Secret\nmetadata: { name: a }\n'
    const patch = `[{"op": "replace", "path": "/data/hidden", "value": "hidden"}]`
    const cases: Readonly<Record<string, Readonly<Record<string, string>>>> = {
      'a literal that is none': { 'prod/kustomization.yaml': 'secretGenerator: [{ name: a, literals: [hidden] }]\n' },
      'a key twice': { 'prod/kustomization.yaml': 'secretGenerator: [{ name: a, literals: [hidden=1, hidden=2] }]\n' },
      'a patch': {
        'prod/kustomization.yaml': `resources: [a.yaml]\npatches: [{ target: { kind: Secret }, patch: '${patch}' }]\n`,
        'prod/a.yaml': secret,
      },
      'a file': {
        'prod/kustomization.yaml': 'resources: [a.yaml]\n',
        'prod/a.yaml': `${secret}data: { hidden: *hidden }\n`,
      },
    }
    for (const [what, files] of Object.entries(cases))
      t.match((await render(files)).problems, [{ file: 'prod', text: hidden }], what)
  })

  await t.test('nothing is fetched, not even from this machine', async (t) => {
    let asked = 0
    const server = createServer((_, response) => {
      asked++
      response.end(base['base/map.yaml'])
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/map.yaml`
    for (const field of [`resources: ["${address}"]`, `patches: [{ path: "${address}" }]`]) {
      t.match(await render({ ...base, 'base/kustomization.yaml': field }), {
        files: [],
        problems: [{ text: /is no file/ }],
      })
    }
    t.equal(asked, 0)
  })
})

const [installedHelm] = installedRenderers('helm')
const withHelm = absent('helm') && !installedHelm ? { skip: 'neither PATH nor KAS_RENDERERS has helm' } : {}
t.test('helm', withHelm, async (t) => {
  const helm = { helm: { chart: 'charts/shop', values: ['prod.yaml'], release: 'shop' }, defaultNamespace: 'prod' }
  const render = (files: Readonly<Record<string, string>>) =>
    new Renderer({ path: `${process.env.PATH}:${installedHelm?.folder}` }).render(
      filesOf(files),
      helm,
      cluster,
      new AbortController().signal,
    )
  const template = (name: string, data: string) =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name}, namespace: {{ .Release.Namespace }} }\ndata: { value: "${data}" }\n`
  const chart = {
    'charts/shop/Chart.yaml': 'apiVersion: v2\nname: shop\nversion: 1.0.0\n',
    'charts/shop/values.yaml': 'color: red\n',
    'charts/shop/templates/a.yaml': template('a', '{{ .Values.color }} {{ .Capabilities.KubeVersion.Version }}'),
    'charts/shop/templates/b.yaml': template('b', '{{ .Capabilities.APIVersions.Has "example.com/v1" }}'),
    'charts/shop/templates/job.yaml': 'kind: Job\nmetadata: { name: j, annotations: { helm.sh/hook: pre-install } }\n',
    'charts/shop/crds/c.yaml': 'kind: CustomResourceDefinition\n',
    'prod.yaml': 'color: blue\n',
  }
  const rendered = await render(chart)
  t.strictSame(rendered.problems, [])
  t.strictSame(rendered.hooks, ['Job prod/j (helm.sh/hook: pre-install)'])
  t.strictSame(rendered.notes, ['Job prod/j (helm.sh/hook: pre-install) is a hook of the chart: it is not run'])
  const { documents } = readFiles(templateFiles(rendered.files[0]?.data ?? Buffer.of(), helm.helm) ?? [])
  const named = documents.map(({ file, object }) => [
    file,
    object.kind,
    (object.data as { value?: string } | undefined)?.value,
  ])
  t.strictSame(named.sort(), [
    ['charts/shop/crds/c.yaml (rendered)', 'CustomResourceDefinition', undefined],
    ['charts/shop/templates/a.yaml (rendered)', 'ConfigMap', 'blue v1.35.4'],
    ['charts/shop/templates/b.yaml (rendered)', 'ConfigMap', 'true'],
  ])
  t.match(await render({ ...chart, 'charts/shop/templates/a.yaml': template('a', '{{ randAlphaNum 16 }}') }), {
    files: [],
    problems: [
      {
        file: 'charts/shop/templates/a.yaml (rendered)',
        text: 'it renders differently each time, as random values do',
      },
    ],
  })
  t.match(await render({ ...chart, 'charts/shop/templates/a.yaml': '\n{{ fail "no color" }}' }), {
    problems: [{ file: 'charts/shop/templates/a.yaml', line: 2, text: /no color/ }],
  })
  const secret =
    'apiVersion: v1\nkind: Secret\nmetadata: { name: s }\nstringData: { a: {{ required "hidden" .Values.none }} }\n'
  t.match(await render({ ...chart, 'charts/shop/templates/s.yaml': secret }), {
    problems: [
      {
        file: 'charts/shop/templates/s.yaml',
        line: 4,
        text: 'helm fails. Its message may quote a Secret, and is not shown: `helm template shop ./charts/shop` prints it',
      },
    ],
  })
  t.match(await render({ ...chart, 'charts/shop/templates/a.yaml': 'a: 1\n b: 2' }), {
    problems: [{ file: 'charts/shop/templates/a.yaml', line: 2, text: /YAML parse error/ }],
  })
  const endless = '{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}'
  t.match(await render({ ...chart, 'charts/shop/templates/a.yaml': endless }), {
    files: [],
    problems: [{ text: /^Error/ }],
  })
})
