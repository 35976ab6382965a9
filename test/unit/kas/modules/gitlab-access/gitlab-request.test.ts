import t from 'tap'
import { gitlabRequestHead } from '../../../../../src/kas/modules/gitlab-access/gitlab-request.ts'
import type { Headers, ModuleRequestHeader } from '../../../../../src/proto/http/http-message.ts'

const request = (header: Headers, more: Partial<ModuleRequestHeader> = {}): ModuleRequestHeader => ({
  method: 'GET',
  moduleName: 'starboard_vulnerability',
  urlPath: '/scan',
  query: [],
  header,
  ...more,
})

/** Returns a header name as Rack, and so GitLab, reads it. */
const rackName = (name: string) => name.toUpperCase().replaceAll('-', '_')

const forbidden = [
  ...['Authorization', 'Cookie', 'Deploy-Token', 'Job-Token', 'Private-Token', 'Sudo', 'Host', 'User-Agent'],
  ...[
    'Gitlab-Kas-Api-Request',
    'Gitlab-Agent-Api-Request',
    'Gitlab-Agentk-Api-Request',
    'Gitlab-Workhorse-Api-Request',
  ],
  ...['X-Forwarded-For', 'X-Forwarded-Proto', 'X-Real-Ip', 'X-Accel-Mapping', 'X-Sendfile-Type', 'Forwarded'],
  ...['Client-Ip', 'X-Client-Ip', 'True-Client-Ip', 'Content-Length', 'Transfer-Encoding', 'Te', 'Connection'],
]

t.test('no spelling of a header that kas or a proxy adds reaches GitLab', (t) => {
  for (const name of forbidden) {
    const spellings = [
      name,
      name.toLowerCase(),
      name.toUpperCase(),
      name.replaceAll('-', '_'),
      name.toLowerCase().replaceAll('-', '_'),
      rackName(name),
      name.replace('-', '_'),
      name.replace(/-(?=[^-]*$)/, '_'),
    ]
    for (const spelling of spellings) {
      const { headers } = gitlabRequestHead(request([[spelling, spelling === name ? ['forged'] : ['forged', 'twice']]]))
      const names = headers.filter((_, i) => i % 2 === 0)
      t.notOk(names.map(rackName).includes(rackName(name)), spelling)
    }
  }
  t.end()
})

t.test('names that could pass for none of these do', (t) => {
  const names = ['Accept', 'X-Gitlab', 'Gitlab', 'Xforwarded-For', 'X-Request-Id', "X!#$%&'*+.^`|~9"]
  const { headers } = gitlabRequestHead(request(names.map((name) => [name, ['1']])))
  t.strictSame(
    headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()),
    names.map((name) => name.toLowerCase()),
  )
  t.end()
})

t.test('names and values that HTTP forbids are named as the fault', (t) => {
  for (const name of [
    '',
    ' Accept',
    'Accept ',
    'X:Y',
    'X\r\nGitlab-Agentk-Api-Request',
    'X\0',
    'Ä',
    'X Y',
    'X\tY',
    '(x)',
  ]) {
    t.throws(() => gitlabRequestHead(request([[name, ['1']]])), { code: 'INVALID_MESSAGE' }, JSON.stringify(name))
  }
  for (const value of ['a\r\nGitlab-Agentk-Api-Request: x', 'a\nb', 'a\rb', 'a\0b', '\x7f', 'Ā']) {
    t.throws(() => gitlabRequestHead(request([['X', [value]]])), { code: 'INVALID_MESSAGE' }, JSON.stringify(value))
  }
  t.end()
})

t.test('a head that is too large is refused before it is parsed, also where it would be left out', (t) => {
  const lines = /more than 500 header lines/
  const bytes = /more than 65536 bytes/
  const many: Headers = Array.from({ length: 501 }, (_, i) => [`X-${i}`, ['1']])
  const cases: [RegExp, ModuleRequestHeader][] = [
    [lines, request(many)],
    [lines, request([['X', Array<string>(501).fill('')]])],
    [lines, request(Array.from({ length: 1_000_000 }, () => ['Cookie', ['']]))],
    [bytes, request([['Cookie', ['x'.repeat(70_000)]]])],
    [bytes, request([['x'.repeat(70_000), ['1']]])],
    [bytes, request([['Connection', [','.repeat(4_000_000)]]])],
    [bytes, request([], { urlPath: `/${'%'.repeat(70_000)}` })],
    [bytes, request([], { moduleName: 'm'.repeat(70_000) })],
    [bytes, request([], { query: [['q', Array<string>(70_000).fill('1')]] })],
    [bytes, request([], { method: 'G'.repeat(70_000) })],
  ]
  for (const [message, head] of cases) t.throws(() => gitlabRequestHead(head), { code: 'INVALID_MESSAGE', message })
  t.throws(
    () => gitlabRequestHead(request([], { query: [['q', ['ä'.repeat(20_000)]]] })),
    { message: bytes },
    'encoded',
  )
  t.end()
})
