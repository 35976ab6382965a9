import t from 'tap'
import { parseDirectory } from '../../../../../src/kas/directory/file/directory-contents.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { tokenHash } from '../../../../../src/lib/token-hash.ts'

const hash = (token: string) => tokenHash(token)
const good = `
projects:
  - { id: 1, path: Platform/Clusters, groups: [{ id: 7, path: platform }], git: { url: /srv/git/clusters.git } }
  - { id: 2, path: platform/apps/web, groups: [{ id: 7, path: platform }, { id: 8, path: platform/apps }] }
agents: [{ id: 42, name: prod, project: 1, tokens: [{ sha256: "${hash('a').toUpperCase()}", expires: 2027-01-01 }] }]
users:
  - { id: 5, username: ada, tokens: [{ sha256: "${hash('u')}" }], roles: { projects: { 1: [guest, maintainer, reporter] }, groups: { 7: [developer] } } }
ci_tokens:
  - { sha256: "${hash('j')}", user: 5, project: 2, job: 900, pipeline: 90, environment: { slug: production, tier: production }, expires: 2026-12-01T10:00:00Z }
`

t.test('a directory file is indexed by id, path and hash', async (t) => {
  const { contents, warnings } = parseDirectory('d.yaml', good)
  t.same(warnings, [])
  t.equal(contents.projectsByPath.get('platform/clusters')?.id, 1n)
  t.equal(contents.projects.get(1n)?.git?.url, '/srv/git/clusters.git')
  t.same(
    contents.projects.get(2n)?.groups.map((group) => group.id),
    [8n, 7n],
    'nearest group first, whatever the order',
  )
  const token = contents.agentTokens.get(hash('a'))
  t.match(token?.owner, { id: 42n, name: 'prod', project: { id: 1n, path: 'Platform/Clusters' } })
  t.equal(token?.expiresAt, Date.UTC(2027, 0, 1))
  const user = contents.userTokens.get(hash('u'))?.owner
  t.equal(user?.projectRoles.get(1n), 'maintainer', 'the highest of those named')
  t.equal(user?.groupRoles.get(7n), 'developer')
  const job = contents.jobTokens.get(hash('j'))
  t.match(job?.owner, { job: { id: 900n }, pipeline: { id: 90n }, environment: { slug: 'production' } })
  t.equal(job?.expiresAt, Date.UTC(2026, 11, 1, 10))
})

t.test('how often a repository is asked, and by what its hooks are known', async (t) => {
  const gitOf = (more: string) => {
    const text = `projects: [{ id: 1, path: a, git: { url: "https://h/x.git"${more} } }]`
    return parseDirectory('d.yaml', text).contents.projects.get(1n)?.git
  }
  t.strictSame([gitOf('')?.pollMs, gitOf('')?.hookSecretFile], [undefined, undefined])
  t.match(gitOf(', poll_period: 1m30s, hook_secret_file: /etc/kas/hook'), {
    pollMs: 90_000,
    hookSecretFile: '/etc/kas/hook',
  })
  for (const period of ['0s', '999ms', '25h', '30', '-3s', '""']) {
    t.throws(() => gitOf(`, poll_period: ${period}`), { message: /poll_period: .*allowed: a duration from 1s to 24h/ })
  }
})

t.test('environments are known by agent', async (t) => {
  const more = (on: string, again = '') =>
    parseDirectory('d.yaml', `${good}environments: [{ project: 2, slug: production, on: [${on}] }${again}]`).contents
  const { environments } = more(
    '{ agent: 42, namespace: shop, selector: { app: web } }, { agent: 42, namespace: bank }',
  )
  t.strictSame(
    [...environments],
    [
      [
        42n,
        [
          { key: '2/production', namespace: 'shop', selector: { app: 'web' } },
          { key: '2/production', namespace: 'bank', selector: {} },
        ],
      ],
    ],
  )
  t.throws(() => more('{ agent: 43 }'), { message: /environments\[0\]\.on\[0\]\.agent: found 43/ })
  t.throws(() => more('{ agent: 42, selector: { app: 1 } }'), { message: /the value of a label/ })
  t.throws(() => more('', ', { project: 2, slug: production }'), { message: /found production of project 2 a second/ })
})

t.test('{} is a directory of nobody, an empty file is a mistake', async (t) => {
  t.equal(parseDirectory('d.yaml', '{}').contents.agents.size, 0)
  t.throws(() => parseDirectory('d.yaml', ' \n'), { message: /d\.yaml: found nothing, allowed: \{\} if nobody/ })
})

t.test('an unknown key warns with the nearest name, a role without a place too', async (t) => {
  const { warnings } = parseDirectory(
    'd.yaml',
    'projekts: []\nusers: [{ id: 1, username: a, roles: { projects: { 9: [owner] } } }]',
  )
  t.match(warnings, [
    { kind: 'unknown', key: 'projekts', hint: 'projects' },
    { kind: 'unused', key: 'users[0].roles.projects.9' },
  ])
})

const agent = (fields: string) => `projects: [{ id: 1, path: a }]\nagents: [{ id: 1, name: x, project: 1, ${fields} }]`
const refused: Record<string, { text: string; says: RegExp; hides?: string }> = {
  'no YAML': { text: 'agents: [', says: /d\.yaml: line 1: not YAML/ },
  'wrong id': { text: 'projects: [{ id: -3, path: a }]', says: /projects\[0\]\.id: found -3, allowed: a whole number/ },
  'wrong path': {
    text: 'projects: [{ id: 3, path: "/a" }]',
    says: /projects\[0\]\.path: found "\/a", allowed: a full path/,
  },
  'a name that leaves the folder': {
    text: 'projects: [{ id: 1, path: a }]\nagents: [{ id: 1, name: "../x", project: 1 }]',
    says: /agents\[0\]\.name: found "\.\.\/x"/,
  },
  'a token instead of its hash': {
    text: agent('tokens: [{ sha256: glagent-secret }]'),
    says: /agents\[0\]\.tokens\[0\]: .*64 hexadecimal digits \(never the token/,
    hides: 'secret',
  },
  'a date that does not exist': {
    text: agent(`tokens: [{ sha256: "${hash('x')}", expires: 2027-02-31 }]`),
    says: /tokens\[0\]\.expires: found "2027-02-31", allowed: a date/,
  },
  'a password in a URL': {
    text: 'projects: [{ id: 1, path: a, git: { url: "https://u:hunter2@h/x.git" } }]',
    says: /projects\[0\]\.git: .*without a password: put credentials in credentials_file/,
    hides: 'hunter2',
  },
  'credentials for ssh': {
    text: 'projects: [{ id: 1, path: a, git: { url: "ssh://git@h/x.git", credentials_file: /c } }]',
    says: /credentials_file with an https URL only/,
  },
  'an unknown role': {
    text: 'users: [{ id: 1, username: a, roles: { groups: { 7: [admin] } } }]',
    says: /users\[0\]\.roles\.groups\.7\[0\]: found "admin", allowed: one of guest, planner, reporter/,
  },
  'an agent of no project': {
    text: 'agents: [{ id: 1, name: x, project: 4 }]',
    says: /agents\[0\]\.project: found 4, allowed: the id of one of projects/,
  },
  'an id twice': {
    text: 'projects: [{ id: 1, path: a }, { id: 1, path: b }]',
    says: /projects\[1\]\.id: found 1 a second time/,
  },
  'a path twice': {
    text: 'projects: [{ id: 1, path: a }, { id: 2, path: A }]',
    says: /projects\[1\]\.path: found A a second time/,
  },
  'a token twice': {
    text: `users: [{ id: 1, username: a, tokens: [{ sha256: "${hash('x')}" }, { sha256: "${hash('x')}" }] }]`,
    says: /users\[0\]\.tokens\[1\]\.sha256: found a hash a second time/,
    hides: hash('x'),
  },
  'two ids of one group': {
    text: 'projects: [{ id: 1, path: a/b, groups: [{ id: 1, path: a }] }, { id: 2, path: a/c, groups: [{ id: 2, path: a }] }]',
    says: /projects\[1\]\.groups\[0\]: found id 2 with path a, allowed: one id for one path/,
  },
}
for (const [name, { text, says, hides }] of Object.entries(refused)) {
  t.test(`refused: ${name}`, async (t) => {
    try {
      parseDirectory('d.yaml', text)
      t.fail('accepted')
    } catch (error) {
      t.ok(error instanceof KasError && error.code === 'SETTINGS_INVALID')
      t.match((error as Error).message, says)
      if (hides) t.notMatch((error as Error).message, hides)
    }
  })
}

t.test('an error shows no secret, wherever it stands by mistake', async (t) => {
  const mistakes = [
    'agents: [{ id: 1, name: a, project: 1, tokens: [glagent-hidden] }]',
    'users: [{ id: 1, username: a, tokens: kaspat-hidden }]',
    'users: [{ id: 1, username: a, tokens: [[kaspat-hidden]] }]',
    'ci_tokens: [kasci-hidden]',
    'ci_tokens: [{ sha256: kasci-hidden, user: 1, project: 1, job: 1, pipeline: 1 }]',
    'projects: [{ id: 1, path: a, git: "https://ada:hidden@git.example.com/a.git" }]',
    'projects: [{ id: 1, path: a, git: "https://ada:hid/den-hidden@x@git.example.com/a.git" }]',
    'projects: [{ id: 1, path: a, git: { url: "https://ada:hidden@git.example.com/a.git" } }]',
  ]
  for (const text of mistakes) {
    const message = t.throws(() => parseDirectory('directory.yaml', text)) as Error
    t.notMatch(message.message, /hidden/, message.message)
  }
})
