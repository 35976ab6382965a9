import t from 'tap'
import {
  type AgentConfigurationFile,
  maxAccessEntries,
  parseAgentConfiguration,
} from '../../../../src/kas/agent-config/agent-config-file.ts'
import { moduleSchemas } from '../../../../src/kas/module-schemas.ts'
import { KasError } from '../../../../src/lib/errors.ts'

const parse = (text: string) => parseAgentConfiguration('c.yaml', Buffer.from(text), moduleSchemas.list)

const gitopsIn = ({ blocks }: Pick<AgentConfigurationFile, 'blocks'>) => JSON.parse(blocks.get('gitops') ?? '')

// wire: file.absent
t.test('an absent file is an empty configuration', async (t) => {
  const { ciAccess, userAccess, warnings } = parseAgentConfiguration('c.yaml', new Uint8Array())
  t.equal(ciAccess.projects.size + ciAccess.groups.size, 0)
  t.same(userAccess, { accessAs: { as: 'none' }, projects: [], groups: [] })
  t.same(warnings, [])
})

// wire: file.gitops, stream.user-access
t.test('everything that agents are sent reaches the protobuf message, user_access does not', async (t) => {
  const { file, warnings } = parse(`
ci_access:
  projects: [{ id: a/b, default_namespace: n, environments: [x], access_as: { impersonate: { username: u, uid: i, groups: [g], extra: [{ key: k, val: [v] }] } } }]
  groups: [{ id: a, protected_branches_only: true, resource_management: { enabled: true } }]
user_access: { access_as: { agent: {} }, projects: [{ id: a/b }] }
observability: { logging: { level: debug, grpc_level: warn } }
container_scanning: { cadence: "0 0 * * *", resource_requirements: { limits: { cpu: 1m, ephemeral_storage: 1G } }, scanner_timeout: 5m }
remote_development: { enabled: true, dns_zone: z, partial_sync_interval: "10s", network_policy: { enabled: false } }
flux: { webhook_receiver_url: http://x }
gitops: { manifest_projects: [{ id: a/b, paths: [{ glob: "**/*.yaml" }], prune: false, ref: { branch: main }, reconcile_timeout: "300s" }] }
`)
  t.match(file, {
    ciAccess: {
      projects: [
        {
          id: 'a/b',
          defaultNamespace: 'n',
          environments: ['x'],
          accessAs: { as: { case: 'impersonate', value: { username: 'u', uid: 'i' } } },
        },
      ],
      groups: [{ id: 'a' }],
    },
    observability: { logging: { level: 1, grpcLevel: 2 } },
    containerScanning: { cadence: '0 0 * * *', resourceRequirements: { limits: { cpu: '1m' } } },
    remoteDevelopment: {
      enabled: true,
      dnsZone: 'z',
      partialSyncInterval: { seconds: 10n },
      networkPolicy: { enabled: false },
    },
    flux: { webhookReceiverUrl: 'http://x' },
    gitops: {
      manifestProjects: [
        { id: 'a/b', pruneOneof: { case: 'prune', value: false }, ref: { ref: { case: 'branch', value: 'main' } } },
      ],
    },
  })
  t.equal(file.userAccess, undefined)
  t.match(warnings, [{ kind: 'unserved', key: 'ci_access.groups[0].resource_management.enabled' }])
  t.equal(warnings.length, 1)
})

t.test('what GitLab would have kas make for jobs is told once, with the projects and what to write', async (t) => {
  const projects = Array.from({ length: 9 }, (_, i) => ({ id: `p${i}`, resource_management: { enabled: i > 0 } }))
  const { warnings } = parse(JSON.stringify({ ci_access: { projects, groups: [{ id: 'g' }] } }))
  t.match(warnings, [{ kind: 'unserved', key: 'ci_access.projects[1].resource_management.enabled' }])
  t.match(
    warnings[0]?.hint,
    /of project p1, project p2, .*project p5 and 3 more\. Write enabled: false there, and make/,
  )
  t.equal(warnings.length, 1)
  const { warnings: ofAll } = parse('ci_access: { instance: { resource_management: { enabled: true } } }')
  t.match(ofAll, [{ key: 'ci_access.instance.resource_management.enabled', hint: /of any project\./ }])
})

// wire: file.unknown, file.unknown.entry
t.test('an unknown key warns with the nearest name; under an entry of ci_access it refuses that entry', async (t) => {
  const { ciAccess, userAccess, warnings } = parse(`
obserability: {}
ci_access: { projects: [{ id: A, enviroments: [x] }, { id: b }], instance: { acces_as: {} } }
user_access: { access_as: { user: {} }, projects: [{ id: A, least_role: 1 }, { id: B }] }
`)
  t.match(
    warnings.map(({ key, hint }) => [key, hint]),
    [
      ['obserability', 'observability'],
      ['ci_access.projects[0].enviroments', 'ci_access.projects[0].environments'],
      ['ci_access.instance.acces_as', 'ci_access.instance.access_as'],
      ['user_access.projects[0].least_role', undefined],
    ],
  )
  t.match(ciAccess.projects.get('a')?.refusal, /unknown key enviroments/)
  t.equal(ciAccess.projects.get('b')?.refusal, undefined)
  t.same(userAccess.projects, ['b'])
})

t.test('an unknown access_as is told apart, and its entry is not sent to agents', async (t) => {
  const { ciAccess, userAccess, file } = parse(`
ci_access: { projects: [{ id: a, access_as: { ci_user: {} } }, { id: b, access_as: { agent: {}, extra: {} } }, { id: c }] }
user_access: { access_as: { robot: {} } }
`)
  t.same(ciAccess.projects.get('a')?.accessAs, { as: 'unknown', found: 'ci_user' })
  t.same(ciAccess.projects.get('b')?.accessAs, { as: 'unknown', found: 'extra' })
  t.same(userAccess.accessAs, { as: 'unknown', found: 'robot' })
  t.same(
    file.ciAccess?.projects.map((project) => project.id),
    ['c'],
  )
})

t.test('of two entries of one path the last counts, and that is told', async (t) => {
  const { ciAccess, warnings } = parse('ci_access: { projects: [{ id: a, environments: [x] }, { id: A }] }')
  t.same(ciAccess.projects.get('a')?.environments, [])
  t.match(warnings, [{ kind: 'unused', key: 'ci_access.projects[0]', hint: /later entry/ }])
})

// wire: file.500
t.test('only the first 500 entries count, and that is reported', async (t) => {
  const projects = Array.from({ length: maxAccessEntries + 1 }, (_, i) => ({ id: `p${i}` }))
  const { ciAccess, warnings } = parse(JSON.stringify({ ci_access: { projects } }))
  t.equal(ciAccess.projects.size, maxAccessEntries)
  t.match(warnings, [{ key: 'ci_access.projects', hint: /first 500/ }])
})

// wire: as.impersonate.all
t.test('an entry with a name that kas alone may say lets nobody in, and is reported', async (t) => {
  for (const [identity, key] of [
    ['username: "gitlab:user:root"', 'username'],
    ['username: " gitlab:user:root"', 'username'],
    ['username: x, groups: [a, "gitlab:user"]', 'groups[1]'],
    ['username: x, extra: [{ key: AGENT.gitlab.com/id, val: [a] }]', 'extra[0].key'],
  ] as const) {
    const entry = `{ id: a, access_as: { impersonate: { ${identity} } } }`
    for (const kind of ['projects', 'groups'] as const) {
      const { ciAccess, warnings } = parse(`ci_access: { ${kind}: [{ id: b }, ${entry}] }`)
      t.match(
        ciAccess[kind].get('a')?.refusal,
        /kas alone may say what begins with (gitlab:|agent\.gitlab\.com\/)/,
        identity,
      )
      t.equal(ciAccess[kind].get('b')?.refusal, undefined)
      t.match(warnings, [
        {
          kind: 'unused',
          key: `ci_access.${kind}[1].access_as.impersonate.${key}`,
          hint: /this entry lets nobody in$/,
        },
      ])
    }
  }
  const others = 'username: Gitlab:user, groups: [gitlab, "system:masters"], extra: [{ key: gitlab.com/id, val: [a] }]'
  t.strictSame(parse(`ci_access: { projects: [{ id: a, access_as: { impersonate: { ${others} } } }] }`).warnings, [])
})

t.test('thousands of entries with an unknown key each are read in linear time', async (t) => {
  const entry = '{id: a,access_as: {x: {}}},'
  const began = process.cpuUsage()
  const { ciAccess, warnings } = parse(`ci_access: { projects: [${entry.repeat(4500)}] }`)
  const { user, system } = process.cpuUsage(began)
  t.equal(warnings.filter(({ kind }) => kind === 'unknown').length, 4500)
  t.same(ciAccess.projects.get('a')?.accessAs, { as: 'unknown', found: 'x' })
  t.ok(user + system < 4e6, 'each entry was compared with each key: 8 s of CPU')
})

const refused: Record<string, [text: string, says: RegExp]> = {
  'no YAML': ['a: [', /^Config: c\.yaml: line 1: not YAML/],
  'a list': ['[]', /found a list/],
  'not UTF-8': ['', /not UTF-8/],
  'no id': ['ci_access: { projects: [{}] }', /ci_access\.projects\[0\]\.id: found nothing/],
  'an id that is no text': [
    'ci_access: { groups: [{ id: 5 }] }',
    /ci_access\.groups\[0\]\.id: found 5, allowed: a text/,
  ],
  'empty access_as': [
    'ci_access: { projects: [{ id: a, access_as: {} }] }',
    /projects\[0\]\.access_as: found nothing, allowed: agent, imp/,
  ],
  'access_as without a value': [
    'ci_access: { projects: [{ id: a, access_as: { agent: } }] }',
    /access_as: found nothing/,
  ],
  'access_as as a word': [
    'ci_access: { projects: [{ id: a, access_as: agent }] }',
    /access_as: found "agent", allowed: a block/,
  ],
  'two access_as': [
    'ci_access: { projects: [{ id: a, access_as: { agent: {}, ci_job: {} } }] }',
    /allowed: one of agent, ci_job/,
  ],
  'impersonate without a name': [
    'ci_access: { projects: [{ id: a, access_as: { impersonate: {} } }] }',
    /impersonate\.username: found nothing/,
  ],
  'empty user access_as': [
    'user_access: { access_as: {} }',
    /user_access\.access_as: found nothing, allowed: agent or user/,
  ],
  'an empty environment': ['ci_access: { projects: [{ id: a, environments: [""] }] }', /environments\[0\]: found ""/],
  'a log level': [
    'observability: { logging: { level: loud } }',
    /level: found "loud", allowed: one of info, debug, warn, error/,
  ],
  'a cron table': ['container_scanning: { cadence: daily }', /cadence: found "daily", allowed: five fields/],
  'a time-out as a number': [
    'container_scanning: { scanner_timeout: 300 }',
    /scanner_timeout: found 300, allowed: a text/,
  ],
  'a size as a list': ['container_scanning: { report_max_size: [] }', /found a list, allowed: a text or a number/],
  'an interval of nothing': ['remote_development: { partial_sync_interval: "0s" }', /found "0s".*above zero/],
  'alias bomb': [
    `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'.replace(/./g, (c, i) => `${c}: &${c} [${`*${'abcdefgh'[i]},`.repeat(9)}]\n`)}`,
    /not YAML: more than 40000 values, with those that aliases stand for/,
  ],
  'a list that aliases repeat': [`a: &a [${'1,'.repeat(6000)}]\nb: [${'*a,'.repeat(9)}]`, /more than 40000 values/],
  'a block that merges repeat': [
    `a: &a {${Array.from({ length: 2100 }, (_, i) => `k${i}: 1,`).join('')}}\nb: [${'{<<: *a},'.repeat(9)}]`,
    /more than 40000 values/,
  ],
  'very many values': [`a: [${'1,'.repeat(41_000)}]`, /more than 40000 values/],
}
// wire: file.yaml, file.one-of, error.stream.user
for (const [name, [text, says]] of Object.entries(refused)) {
  t.test(`refused: ${name}`, async (t) => {
    const bytes = name === 'not UTF-8' ? Uint8Array.of(0x61, 0xff) : Buffer.from(text)
    try {
      parseAgentConfiguration('c.yaml', bytes)
      t.fail('accepted')
    } catch (error) {
      t.equal(error instanceof KasError && error.code, 'CONFIGURATION_INVALID')
      t.match((error as Error).message, says)
    }
  })
}

t.test('gitops: keys of ours, and what is said of wrong ones', async (t) => {
  const source = {
    id: 'a/b',
    name: 'shop',
    paths: [{ glob: '**' }, { file: 'a.yaml' }],
    ref: { tag: 'v1' },
    resource_inclusions: [{ api_groups: ['apps', ''], kinds: ['*'] }],
    adopt: ['41-7'],
    namespaces: ['shop'],
    access_as: { service_account: { namespace: 'shop', name: 'deployer' } },
    kustomize: { path: 'prod' },
    prune_confirm: [],
    prune_limit: '50%',
    on_removal: 'prune',
    conflicts: 'fail',
    environments: ['production'],
  }
  const read = (...sources: object[]) => parse(JSON.stringify({ gitops: { manifest_projects: sources } }))
  t.strictSame(gitopsIn(read(source)), { manifest_projects: [source] })
  t.strictSame(gitopsIn(parse('')), {})
  t.strictSame(gitopsIn(parse('gitops: {}')), {})
  const at = 'gitops.manifest_projects[0]'
  for (const [change, says] of [
    [{ namspaces: ['x'] }, `${at}.namspaces: this key is not known, did you mean ${at}.namespaces?`],
    [{ name: 'Shop' }, `${at}.name: found "Shop", allowed: 1 to 32 lower-case letters, digits and hyphens`],
    [{ paths: [{ glob: 'a', file: 'b' }] }, `${at}.paths[0]: `],
    [{ ref: { tag: 'a', branch: 'b' } }, `${at}.ref: `],
    [{ namespaces: [] }, `${at}.namespaces: `],
    [{ access_as: {} }, `${at}.access_as.service_account: `],
    [{ helm: { chart: 'c', release: 'r' } }, 'kustomize or helm, not both'],
    [{ kustomize: { path: '/prod' } }, `${at}.kustomize.path: `],
    [{ kustomize: { path: 'a/../../b' } }, `${at}.kustomize.path: `],
    [{ helm: { chart: '..', release: 'r' } }, `${at}.helm.chart: `],
    [{ helm: { chart: 'c', release: 'r'.repeat(54) } }, `${at}.helm.release: `],
    [
      { prune_limit: '101%' },
      `${at}.prune_limit: found "101%", allowed: a share such as "50%", or a number of objects`,
    ],
    [{ on_removal: 'delete' }, `${at}.on_removal: `],
    [{ reconcile_timeout: '1h' }, `${at}.reconcile_timeout: `],
    [{ drift: { mode: 'reset' } }, `${at}.drift.mode: found "reset", allowed: one of correct, report, none`],
    [
      { drift: { scan: '60s' } },
      `${at}.drift.scan: found "60s", allowed: seconds such as "300s", from "300s" to "604800s"`,
    ],
    [{ drift: { ignor: [] } }, `${at}.drift.ignor: this key is not known, did you mean ${at}.drift.ignore?`],
    [
      { drift: { ignore: [{ kinds: ['Pod'] }] } },
      `${at}.drift.ignore[0]: found a block of keys, allowed: paths, managers, or both`,
    ],
    [
      { drift: { ignore: [{ paths: ['spec.replicas'] }] } },
      `${at}.drift.ignore[0].paths[0]: found "spec.replicas", allowed: a path that begins with "." or "/"`,
    ],
  ] as const) {
    const error = t.throws(() => read({ ...source, ...change })) as unknown as Error
    t.match(error.message, says)
  }
  const twice = t.throws(() => read(source, { ...source, id: 'A/B' })) as unknown as Error
  t.match(twice.message, 'gitops.manifest_projects[1].name')
  t.equal(gitopsIn(read(source, { ...source, name: 'other' })).manifest_projects.length, 2)
  t.match((t.throws(() => read(...Array(101).fill(source))) as unknown as Error).message, 'a list of at most 100')
})

t.test(
  'gitops: stock agents are sent the keys that they know, of sources that they take as they are meant',
  async (t) => {
    const plain = { id: 'a/b', name: 'x', paths: [{ glob: '**' }], adopt: ['y'], prune_limit: 5, prune: false }
    const others = [
      { kustomize: { path: 'a' } },
      { helm: { chart: 'c', release: 'r' } },
      { namespaces: ['n'] },
      { access_as: { service_account: { namespace: 'n', name: 'm' } } },
      { paths: [{ file: 'a' }] },
      { resource_exclusions: [{ api_groups: [''], kinds: ['Secret'] }] },
      { drift: { mode: 'report' } },
      { drift: { mode: 'none' } },
      { drift: { ignore: [{ managers: ['scaler'] }] } },
      { drift: { after: '301s' } },
      { drift: { added_by: ['kubectl*'] } },
    ]
    const as = { ...plain, name: 'as', drift: { mode: 'correct', after: '60s' } }
    const sources = [plain, as, ...others.map((more, i) => ({ ...plain, name: `n${i}`, ...more }))]
    const { file, blocks } = parse(JSON.stringify({ gitops: { manifest_projects: sources } }))
    t.equal(file.gitops?.manifestProjects.length, 2)
    t.match(file.gitops?.manifestProjects[0], { id: 'a/b', paths: [{ glob: '**' }], pruneOneof: { value: false } })
    t.equal(gitopsIn({ blocks }).manifest_projects.length, 13)
    const common = { drift: { mode: 'report' }, manifest_projects: [plain, as] }
    t.equal(parse(JSON.stringify({ gitops: common })).file.gitops?.manifestProjects.length, 1, 'of all sources')
  },
)
