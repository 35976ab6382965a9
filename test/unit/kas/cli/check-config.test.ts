import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { checkConfig, configFolder } from '../../../support/check-config.ts'

const stock = join(import.meta.dirname, '../../../support/stock-configuration')
const root = join(import.meta.dirname, '../../../..')

async function folderOf(t: Test, files: Readonly<Record<string, string>>): Promise<string> {
  const { folder, write } = await configFolder(t)
  for (const [name, text] of Object.entries(files)) await write(name, text)
  return folder
}

const lineOf = (text: string, key: string) => text.split('\n').findIndex((line) => line.trim().startsWith(key)) + 1

t.test('files that packages write can be used, and what is not used in them is named', async (t) => {
  for (const name of readdirSync(stock)) {
    const file = join(stock, name)
    const { code, stdout, stderr } = await checkConfig(['--configuration-file', file])
    t.equal(code, 0, `${name}: ${stdout}${stderr}`)
    const text = await readFile(file, 'utf8')
    const line = lineOf(text, 'redis:')
    if (line > 0) t.match(stdout, `${file}: line ${line}: redis: has no effect: there is no Redis`)
    t.match(
      stdout,
      new RegExp(`${name}: can be used(; \\d+ keys? ha(s|ve) no effect)?; \\d+ files are not checked\\n$`),
    )
    const strict = await checkConfig(['--strict', '--configuration-file', file])
    t.equal(strict.code, stdout.includes('no effect') ? 1 : 0, `${name}, --strict`)
  }
})

t.test('keys that a later release brings are named with their lines, and stop nothing', async (t) => {
  const later = (await readFile(join(stock, 'upstream.yaml'), 'utf8')).replace(
    /^agent:$/m,
    'agent:\n  quantum_tunnels:\n    enabled: true',
  )
  const folder = await folderOf(t, { 'kas.yaml': `${later}\nledger:\n  address: grpc://ledger\n` })
  const file = join(folder, 'kas.yaml')
  const { code, stdout } = await checkConfig(['--configuration-file', file])
  t.equal(code, 0, stdout)
  t.match(stdout, `line ${lineOf(later, 'quantum_tunnels')}: agent.quantum_tunnels: this key is not known`)
  t.match(stdout, /line \d+: ledger: this key is not known/)
  const { code: strict, stdout: refused } = await checkConfig(['--strict', '--configuration-file', file])
  t.equal(strict, 1)
  t.match(refused, 'cannot be used')
})

interface Wrong {
  readonly kind: 'configuration-file' | 'directory' | 'agent-file'
  readonly name?: string
  readonly text: string
  /** printed lines, without the name of the file */
  readonly said: readonly RegExp[]
}

const kas = (text: string, ...said: RegExp[]): Wrong => ({ kind: 'configuration-file', text, said })
const alone = 'directory: { file: d.yaml }\n'
const directory = (text: string, ...said: RegExp[]): Wrong => ({ kind: 'directory', text, said })
const agent = (text: string, ...said: RegExp[]): Wrong => ({ kind: 'agent-file', text, said })
const hash = 'a'.repeat(64)

const wrongFiles: Readonly<Record<string, Wrong>> = {
  'a network': kas(
    `${alone}agent:\n  listen:\n    network: udp\n`,
    /^line 4: agent\.listen\.network: found "udp", allowed: one of tcp, tcp4, tcp6, unix$/,
  ),
  'a duration': kas(
    `${alone}agent:\n  configuration:\n    poll_period: 5\n`,
    /^line 4: agent\.configuration\.poll_period: found 5, allowed: a duration above zero/,
  ),
  'an address without its port': kas(
    `${alone}observability:\n  listen:\n    address: localhost\n`,
    /^line 4: observability\.listen\.address: found "localhost", allowed: /,
  ),
  'a certificate without its key': kas(
    `${alone}agent:\n  listen:\n    certificate_file: a\n`,
    /^line 4: agent\.listen\.key_file: found nothing, allowed: certificate_file and key_file, both or neither$/,
  ),
  'a level': kas(
    `${alone}observability:\n  logging:\n    level: loud\n`,
    /^line 4: observability\.logging\.level: found "loud", allowed: one of debug, info, warn, error$/,
  ),
  'a number beyond its bounds': kas(
    `${alone}agent:\n  gitops:\n    max_number_of_paths: 0\n`,
    /^line 4: agent\.gitops\.max_number_of_paths: found 0, allowed: a whole number from 1 to 1000$/,
  ),
  'a URL without its scheme': kas(
    `${alone}gitlab:\n  external_url: gitlab.example.com\n`,
    /^line 3: gitlab\.external_url: found "gitlab\.example\.com", allowed: a URL that begins with http:\/\/ or https:\/\/$/,
  ),
  'a text for a switch': kas(
    `${alone}agent:\n  listen:\n    websocket: "yes"\n`,
    /^line 4: agent\.listen\.websocket: found "yes", allowed: true or false$/,
  ),
  'a PROXY protocol of nobody': kas(
    `${alone}agent:\n  listen:\n    proxy_protocol: true\n`,
    /^line 3: agent\.listen\.trusted_proxies: found nothing, allowed: the fronts of agent\.listen\.proxy_protocol$/,
  ),
  'GitLab without its address, and a key that nobody knows': kas(
    `gitlab:
  adress: https://gitlab.example.com
  authentication_secret_file: a
api: { listen: { authentication_secret_file: a } }
private_api: { listen: { authentication_secret_file: b } }
`,
    /^line 1: gitlab\.address: found nothing, allowed: a value, or directory\.file/,
    /^line 2: gitlab\.adress: this key is not known, did you mean gitlab\.address\?$/,
  ),
  'two at once': kas(
    `${alone}agent:\n  listen:\n    network: udp\n    websocket: 1\n`,
    /^line 4: agent\.listen\.network: /,
    /^line 5: agent\.listen\.websocket: found 1, allowed: true or false$/,
  ),
  'GitLab without its scheme, which is said once': kas(
    `${alone}gitlab:\n  address: gitlab.example.com\n`,
    /^line 3: gitlab\.address: found "gitlab\.example\.com", allowed: a URL that begins with http:\/\/ or https:\/\/$/,
  ),
  'a size with its unit': kas(
    `${alone}agent:\n  configuration:\n    max_configuration_file_size: 128KB\n`,
    /^line 4: agent\.configuration\.max_configuration_file_size: found "128KB", allowed: a whole number from 1 to 4194304$/,
  ),
  'a text for a list': kas(
    `${alone}agent:\n  listen:\n    trusted_proxies: 10.0.0.0/8\n`,
    /^line 4: agent\.listen\.trusted_proxies: found "10\.0\.0\.0\/8", allowed: a list of addresses and networks$/,
  ),
  'lines that end as on Windows': kas(
    `${alone}agent:\n  listen:\n    network: udp\n`.replaceAll('\n', '\r\n'),
    /^line 4: agent\.listen\.network: found "udp", allowed: /,
  ),
  'a line that is indented too little': kas(
    `${alone}agent:\n  listen:\n    network: tcp\n   websocket: true\n`,
    /^line 5: not YAML: All mapping items must start at the same column$/,
  ),
  'a tab': kas('agent:\n\tlisten: {}\n', /^line 2: not YAML: Tabs are not allowed as indentation$/),
  'an alias of nothing': kas(`${alone}agent:\n  listen: *tls\n`, /^line 3: not YAML: no &tls stands before \*tls$/),
  'a second document': kas(`${alone}---\nagent: {}\n`, /^line 2: not YAML: more than one document$/),
  'a template that nobody has rendered': kas(
    `${alone}agent:\n  listen:\n    address: {{ .Values.address }}\n`,
    /^line 4: not YAML: Map keys must be plain$/,
  ),
  'UTF-16': kas(
    Buffer.from(`\ufeff${alone}`, 'utf16le').toString('latin1'),
    /^not UTF-8: it has bytes of zero, as UTF-16 has: save it as UTF-8$/,
  ),
  'nothing at all': kas(
    '',
    ...['gitlab.address', 'gitlab.authentication_secret_file'].map((key) => new RegExp(`^${key}: found nothing`)),
    ...['api.listen', 'private_api.listen'].map(
      (key) => new RegExp(`^${key}.authentication_secret_file: found nothing`),
    ),
  ),
  'no YAML': kas('agent:\n  listen: {\n', /^line 3: not YAML: /),
  'a key twice': kas('agent: {}\nagent: {}\n', /^line 2: not YAML: Map keys must be unique$/),
  'a list for a block': kas(`${alone}agent:\n  - a\n`, /^line 3: agent: found a list, allowed: a block of keys$/),
  'a directory of nothing': directory('', /^found nothing, allowed: \{\} if nobody has access$/),
  'an agent of a project that is not there': directory(
    'projects: []\nagents:\n  - id: 42\n    name: prod\n    project: 9\n',
    /^line 5: agents\[0\]\.project: found 9, allowed: the id of one of projects$/,
  ),
  'a token twice': directory(
    `users:\n  - id: 5\n    username: ada\n    tokens:\n      - sha256: "${hash}"\n      - sha256: "${hash}"\n`,
    /^line 6: users\[0\]\.tokens\[1\]\.sha256: found a hash a second time, allowed: each once$/,
  ),
  'a role': directory(
    'users:\n  - id: 5\n    username: ada\n    roles:\n      projects:\n        1: [boss]\n',
    /^line 6: users\[0\]\.roles\.projects\.1\[0\]: found "boss", allowed: one of guest, /,
  ),
  'an id of an agent': directory(
    'agents:\n  - id: 0\n    name: prod\n    project: 1\n',
    /^line 2: agents\[0\]\.id: found 0, allowed: /,
  ),
  'as whom twice': agent(
    'user_access:\n  access_as:\n    agent: {}\n    user: {}\n',
    /^line 3: user_access\.access_as: found a block of keys, allowed: one of agent, user$/,
  ),
  'as whom not at all': agent(
    'ci_access:\n  projects:\n    - id: a/b\n      access_as: {}\n',
    /^line 4: ci_access\.projects\[0\]\.access_as: found nothing, allowed: agent, impersonate or ci_job$/,
  ),
  'a restriction that is misspelt': {
    kind: 'agent-file',
    name: 'gitops.yaml',
    text: 'gitops:\n  sourcez:\n    - a\n',
    said: [/^line 2: gitops\.sourcez: this key is not known/],
  },
  'what views show': {
    kind: 'agent-file',
    name: 'views.yaml',
    text: 'follow:\n  kinds:\n    - "a b"\nverdict: best\n',
    said: [
      /^line 3: follow\.kinds\[0\]: found "a b", allowed: group\/Kind/,
      /^line 4: verdict: found "best", allowed: one of argo, kstatus, kas$/,
    ],
  },
}

for (const [name, { kind, name: fileName = 'config.yaml', text, said }] of Object.entries(wrongFiles)) {
  t.test(`wrong: ${name}`, async (t) => {
    const file = join(await folderOf(t, { [fileName]: text }), fileName)
    const { code, stdout } = await checkConfig([`--${kind}`, file])
    t.equal(code, 1)
    const lines = stdout.trimEnd().split('\n')
    t.equal(lines.pop(), `${file}: cannot be used`)
    t.equal(lines.length, said.length, stdout)
    for (const [i, pattern] of said.entries()) {
      t.ok(lines[i]?.startsWith(`${file}: `), stdout)
      t.match(lines[i]?.slice(`${file}: `.length), pattern)
    }
    const json = JSON.parse((await checkConfig([`--${kind}`, file, '--output', 'json'])).stdout)
    t.equal(json.files[0].usable, false)
    t.strictSame(
      json.files[0].problems.map((one: { line?: number; key?: string; text: string }) =>
        [one.line === undefined ? [] : [`line ${one.line}`], one.key ?? [], one.text].flat().join(': '),
      ),
      lines.map((line) => line.slice(`${file}: `.length)),
      'the same as JSON',
    )
  })
}

t.test('a file that is not there, the environment, and one that is too large', async (t) => {
  const folder = await folderOf(t, { 'kas.yaml': alone, 'config.yaml': `# ${'x'.repeat(131_072)}\n` })
  const absent = await checkConfig(['--directory', join(folder, 'absent.yaml')])
  t.equal(absent.code, 1)
  t.match(absent.stdout, /absent\.yaml: cannot be read: ENOENT/)
  const file = join(folder, 'kas.yaml')
  const environment = await checkConfig(['--configuration-file', file], { KAS_CLUSTER_LISTEN: 'nowhere' })
  t.equal(environment.code, 1)
  t.match(environment.stdout, /^environment: KAS_CLUSTER_LISTEN: found "nowhere", allowed: /)
  const large = join(folder, 'config.yaml')
  const refused = await checkConfig(['--agent-file', large])
  t.equal(refused.code, 1)
  t.match(refused.stdout, /found \d+ bytes, allowed: 131072 \(max_configuration_file_size\)/)
  await writeFile(file, `${alone}agent: { configuration: { max_configuration_file_size: 200000 } }\n`)
  t.equal((await checkConfig(['--configuration-file', file, '--agent-file', large])).code, 0, 'as kas is told')
})

t.test('what files say steers no terminal', async (t) => {
  const folder = await folderOf(t, { 'kas.yaml': `${alone}"bad\\e[2Jkey": 1\n` })
  for (const output of ['table', 'json', 'yaml']) {
    const { stdout } = await checkConfig(['--configuration-file', join(folder, 'kas.yaml'), '--output', output])
    t.notMatch(stdout, '\u001b')
    t.match(stdout, 'bad')
  }
})

t.test('gitops of an agent in both of its files: each can be used, the two together cannot', async (t) => {
  const gitops = 'gitops: {}\n'
  const folder = await folderOf(t, { 'config.yaml': gitops, 'gitops.yaml': gitops, 'other/config.yaml': gitops })
  const [configuration, own, other] = ['config.yaml', 'gitops.yaml', 'other/config.yaml'].map((name) =>
    join(folder, name),
  ) as [string, string, string]
  const of = (...files: string[]) => checkConfig(files.map((file) => `--agent-file=${file}`))
  for (const files of [[configuration], [own], [own, other]]) {
    const { code, stdout } = await of(...files)
    t.equal(code, 0, stdout)
  }
  const { code, stdout } = await of(own, configuration)
  t.equal(code, 1)
  t.match(stdout, `${own}: gitops stands in ${configuration} and in ${own}: allowed in one\n${own}: cannot be used`)
  await writeFile(configuration, 'user_access: 1\n')
  const broken = await of(own, configuration)
  t.equal(broken.code, 1)
  t.match(broken.stdout, `${own}: can be used`, 'what is wrong is said of the other')
})

t.test('a command line that asks for nothing, or for another form', async (t) => {
  for (const args of [[], ['--output', 'xml', '--directory', 'd'], ['--unheard'], ['file.yaml']]) {
    const { code, stderr } = await checkConfig(args)
    t.equal(code, 2, args.join(' '))
    t.match(stderr, 'usage: kas check-config')
  }
  const { code, stdout } = await checkConfig(['--help'])
  t.equal(code, 0)
  t.match(stdout, '--strict')
})

t.test('the program ends by itself: nothing listens', async (t) => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(root, 'src/kas/main.ts'),
    'check-config',
    `--configuration-file=${join(stock, 'omnibus.yml')}`,
    `--agent-file=${join(await folderOf(t, { 'config.yaml': 'user_access: {}\n' }), 'config.yaml')}`,
  ])
  t.match(stdout, /omnibus\.yml: can be used; \d+ keys have no effect/)
  t.match(stdout, /\/config\.yaml: can be used\n$/)
})

t.test('names that agentk refuses by default are named, with its flags and the value of the chart', async (t) => {
  const configuration = `ci_access:
  projects:
    - id: apps/plain
      access_as: { agent: {} }
    - id: apps/robot
      access_as:
        impersonate:
          username: robot
          groups: [robots, 'system:masters']
          uid: '7'
          extra: [{ key: example.com/Reason, val: [one] }]
  groups:
    - id: apps
      access_as:
        impersonate:
          username: system:serviceaccount:team-a:gitlab
          groups:
`
  const gitops = `gitops:
  manifest_projects:
    - id: apps/shop
    - id: apps/bank
      access_as: { service_account: { namespace: bank, name: deployer } }
`
  const folder = await folderOf(t, {
    'config.yaml': configuration,
    'gitops.yaml': gitops,
    'both/config.yaml': configuration + gitops,
  })
  const said = async (...names: string[]) =>
    await checkConfig(names.flatMap((name) => ['--agent-file', join(folder, name)]))
  const { code, stdout } = await said('config.yaml', 'gitops.yaml')
  t.equal(code, 0, stdout)
  const file = join(folder, 'config.yaml')
  const refuses = 'has no effect: agentk refuses these names by default: allow them by its flags'
  const value = "or by the chart's value"
  const robot = ['user:robot', 'group:robots', 'group:system:masters', 'uid:7', 'extra:example.com/reason']
  const flagsOf = (entries: readonly string[]) => entries.map((entry) => `--may-impersonate=${entry}`).join(' ')
  const ofCi = [
    [7, 'projects[1]', flagsOf(robot)],
    [15, 'groups[0]', flagsOf(['serviceaccount:team-a:gitlab'])],
  ].map(
    ([line, at, flags]) =>
      `line ${line}: ci_access.${at}.access_as.impersonate: ${refuses} ${flags}, ${value} rbac.namespaces or impersonation.allowed`,
  )
  const ofSource = `gitops.manifest_projects[1].access_as.service_account: ${refuses} ${flagsOf(['serviceaccount:bank:deployer'])}, ${value} rbac.gitops.sources`
  t.strictSame(stdout.trim().split('\n'), [
    ...ofCi.map((one) => `${file}: ${one}`),
    `${file}: can be used; 2 keys have no effect`,
    `${join(folder, 'gitops.yaml')}: line 5: ${ofSource}`,
    `${join(folder, 'gitops.yaml')}: can be used; 1 key has no effect`,
  ])
  t.match((await said('both/config.yaml')).stdout, `line 22: ${ofSource}`, 'in the configuration itself, too')
  t.equal((await checkConfig(['--strict', '--agent-file', file])).code, 1, '--strict')
})

t.test('rules of drift: parts without effect, and rules that cover whole objects', async (t) => {
  const rules: readonly (readonly [rule: string, line: string | undefined])[] = [
    ['{ paths: [.spec.replicas, /spec/replicas] }', undefined],
    ['{ kinds: [Deployment, apps/StatefulSet, /Secret, "*", "apps/*"], paths: [.spec.replicas] }', undefined],
    ['{ kinds: [Rollout, VerticalPodAutoscaler, ValidatingAdmissionPolicyBinding], paths: [.spec.a] }', undefined],
    ['{ kinds: [argoproj.io/Rollot, crews.example.com/Deploymnt], paths: [.spec.a] }', undefined],
    [
      '{ kinds: [Pod, Deploymnt], paths: [.spec.a] }',
      'kinds[1]: has no effect: Kubernetes has no such kind, did you mean Deployment? A custom kind is written with its group',
    ],
    [
      '{ kinds: [deployment], paths: [.spec.a] }',
      'kinds[0]: has no effect: Kubernetes has no such kind, did you mean Deployment? A custom kind is written with its group',
    ],
    [
      '{ kinds: [apps/Deployments], paths: [.spec.a] }',
      'kinds[0]: has no effect: Kubernetes has no such kind, did you mean apps/Deployment?',
    ],
    [
      '{ kinds: [app/Deployment], paths: [.spec.a] }',
      'kinds[0]: has no effect: Kubernetes has no group "app", did you mean apps/Deployment?',
    ],
    [
      '{ kinds: [core/Secret], paths: [.spec.a] }',
      'kinds[0]: has no effect: the group of Secret has an empty name: write "/Secret", or "Secret" for any group',
    ],
    [
      '{ paths: [".spec.template.spec.containers[*].args[0]"] }',
      'paths[0]: has no effect: one manager owns all of .spec.template.spec.containers[*].args, and conflicts name no more than that: write .spec.template.spec.containers[*].args',
    ],
    [
      '{ paths: [.spec.replicas, /spec/template/spec/containers/0/args/0] }',
      'paths[1]: has no effect: one manager owns all of /spec/template/spec/containers/0/args, and conflicts name no more than that: write /spec/template/spec/containers/0/args',
    ],
    [
      '{ paths: [.spec.template.spec.nodeSelector.kubernetes.io/os] }',
      'paths[0]: has no effect: one manager owns all of .spec.template.spec.nodeSelector, and conflicts name no more than that: write .spec.template.spec.nodeSelector',
    ],
    [
      '{ kinds: [Service], paths: [.spec.selector.app] }',
      'paths[0]: has no effect: one manager owns all of .spec.selector, and conflicts name no more than that: write .spec.selector',
    ],
    ['{ kinds: [Service, example.com/Thing], paths: [.spec.selector.app] }', undefined],
    ['{ paths: [.spec.selector.app] }', undefined],
    ['{ paths: [".spec.template.spec.containers[*].args"] }', undefined],
    [
      '{ paths: [".metadata.finalizers[=\\"example.com/a\\"]"] }',
      'paths[0]: has no effect: .metadata.finalizers is a set, whose values never conflict, so that an apply cannot leave one out',
    ],
    [
      '{ paths: [.spec.template.spec.containers.resources] }',
      'paths[0]: has no effect: .spec.template.spec.containers is a list: write .spec.template.spec.containers[*], or an item by its key (name)',
    ],
    [
      '{ paths: [/spec/template/spec/containers/app/resources] }',
      'paths[0]: has no effect: /spec/template/spec/containers is a list: write the index of an item behind it',
    ],
    [
      '{ kinds: [Service], paths: [".spec.ports[name=\\"web\\"].nodePort"] }',
      'paths[0]: has no effect: the items of .spec.ports are known by port and protocol, not by name',
    ],
    ['{ kinds: [Service], paths: [".spec.ports[port=80].nodePort", "/spec/ports/0/nodePort"] }', undefined],
    [
      '{ paths: [".spec.template.spec.containers[image=\\"a\\"]"] }',
      'paths[0]: has no effect: the items of .spec.template.spec.containers are known by name, not by image',
    ],
    [
      '{ paths: [.status.replicas] }',
      'paths[0]: has no effect: a source applies no status, and drift does not compare it',
    ],
    [
      '{ paths: [/metadata/annotations/tool.example/x] }',
      'paths[0]: has no effect: a "/" in a key is written "~1" in a JSON Pointer: /metadata/annotations/tool.example~1x',
    ],
    ['{ paths: [/metadata/annotations/tool.example~1x, .metadata.annotations.tool.example/x] }', undefined],
  ]
  const loss = 'so that a commit that changes such a field changes nothing in the cluster'
  const wide: readonly (readonly [rule: string, line: string])[] = [
    [
      '{ kinds: ["*"], managers: [scaler] }',
      `: covers whole objects: every field that scaler owns, ${loss}. Add paths`,
    ],
    [
      '{ paths: [""] }',
      `.paths[0]: covers whole objects: every field there that another manager owns, ${loss}. Name longer paths`,
    ],
    [
      '{ paths: [.spec.replicas, /spec], managers: [a, b] }',
      `.paths[1]: covers all of /spec: every field there that a, b owns, ${loss}. Name longer paths`,
    ],
  ]
  const indent = (all: readonly (readonly [rule: string, ...unknown[]])[], by: string) =>
    all.map(([rule]) => `${by}- ${rule}\n`).join('')
  const own = `gitops:\n  manifest_projects:\n  - name: a\n    drift:\n      ignore:\n${indent([...rules, ...wide], '      ')}`
  const folder = await folderOf(t, { 'gitops.yaml': own })
  const file = join(folder, 'gitops.yaml')
  const { code, stdout } = await checkConfig(['--agent-file', file])
  t.equal(code, 0, stdout)
  const at = (i: number) => `line ${i + 6}: gitops.manifest_projects[0].drift.ignore[${i}]`
  const without = rules.flatMap(([, line], i) => (line === undefined ? [] : [`${file}: ${at(i)}.${line}`]))
  const notes = wide.map(([, line], i) => `${file}: ${at(rules.length + i)}${line}`)
  t.strictSame(stdout.trimEnd().split('\n'), [
    ...without,
    ...notes,
    `${file}: can be used; ${without.length} keys have no effect`,
  ])
  t.equal((await checkConfig(['--strict', '--agent-file', file])).code, 1, '--strict')

  const common = `gitops:\n  drift:\n    ignore:\n    - { managers: [a] }\n  manifest_projects: [{ name: a }, { name: b }]\n`
  const all = join(await folderOf(t, { 'config.yaml': common }), 'config.yaml')
  const once = await checkConfig(['--strict', '--agent-file', all])
  t.equal(once.code, 0, 'a note is no fault')
  t.strictSame(once.stdout.trimEnd().split('\n'), [
    `${all}: line 4: gitops.drift.ignore[0]: covers whole objects: every field that a owns, ${loss}. Add paths`,
    `${all}: can be used`,
  ])
})

t.test('rules of drift that cannot be used', async (t) => {
  const wrong: Readonly<Record<string, RegExp>> = {
    '{ ignore: [{}] }': /ignore\[0\]: found a block of keys, allowed: paths, managers, or both$/m,
    '{ ignore: [{ kinds: [Pod] }] }': /ignore\[0\]: found a block of keys, allowed: paths, managers, or both$/m,
    '{ ignore: [{ paths: [] }] }': /ignore\[0\]\.paths: found a list, allowed: at least one$/m,
    '{ ignore: [{ paths: [spec.replicas] }] }':
      /paths\[0\]: found "spec\.replicas", allowed: a path that begins with "\." or "\/", such as "\.spec\.replicas" or "\/spec\/replicas"$/m,
    "{ ignore: [{ paths: ['.spec.containers[].image'] }] }": /allowed: in brackets one item of a list: \[name="app"\]/,
    '{ ignore: [{ path: [.spec], managers: [a] }] }':
      /ignore\[0\]\.path: this key is not known, did you mean .*\.paths\?/,
    '{ ignore: [{ kinds: [apps/v1/Deployment], paths: [.spec] }] }':
      /kinds\[0\]: found "apps\/v1\/Deployment", allowed: a kind such as "Deployment" or "apps\/Deployment", in which "\*" is any text$/m,
    '{ mode: fix }': /mode: found "fix", allowed: one of correct, report, none$/m,
    '{ after: 5m }': /after: found "5m", allowed: seconds such as "300s", from "0s" to "604800s"$/m,
    '{ scan: 10s }': /scan: found "10s", allowed: seconds such as "300s", from "300s" to "604800s"$/m,
    '{ added_by: kubectl }': /added_by: found "kubectl", allowed: a list$/m,
    '{ modes: report }': /modes: this key is not known, did you mean .*drift\.mode\?/,
  }
  for (const [drift, line] of Object.entries(wrong)) {
    for (const text of [`gitops: { drift: ${drift} }\n`, `gitops: { manifest_projects: [{ drift: ${drift} }] }\n`]) {
      const { code, stdout } = await checkConfig([
        '--agent-file',
        join(await folderOf(t, { 'gitops.yaml': text }), 'gitops.yaml'),
      ])
      t.equal(code, 1, text)
      t.match(stdout, line, text)
    }
  }
})
