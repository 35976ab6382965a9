import t from 'tap'
import {
  isSentToGitlab,
  passedCookies,
  sharesHost,
} from '../../../../../../src/kas/servers/kubernetes/request/passed-cookies.ts'

t.test('cookies go on, but for those of GitLab', async (t) => {
  for (const [headers, passed] of [
    [['s=1'], ['s=1']],
    [['a=1; b=2'], ['a=1; b=2']],
    [
      ['a=1;b=2', 'c=3'],
      ['a=1; b=2', 'c=3'],
    ],
    [['a=_gitlab_session; x_gitlab_session=1'], ['a=_gitlab_session; x_gitlab_session=1']],
    [['a="b;c"; d='], ['a="b; c"; d=']],
    [['s'], ['s']],
    [['  ;; '], []],
    [[''], []],
  ] as const)
    t.strictSame(passedCookies(headers), passed, headers.join())
  const own = [
    '_gitlab_session=x',
    '_gitlab_kas=x',
    '_gitlab_session_0a1b2c=x',
    '_gitlab_openbao',
    'remember_user_token=x',
    'remember_user_token2=x',
    '__Host-session=x',
    '  _gitlab_session  = x',
    '\t_gitlab_session=x',
    '_GITLAB_SESSION=x',
    '__host-x=y',
    '"_gitlab_session"=x',
    '_gitlab_session',
  ]
  for (const pair of own) {
    t.strictSame(passedCookies([pair]), [], pair)
    t.strictSame(passedCookies([`a=1;${pair}; b=2`, pair]), ['a=1; b=2'], pair)
  }
})

t.test('a host is GitLab’s in any spelling, at any port', async (t) => {
  const gitlab = 'gitlab.example.com'
  for (const host of [gitlab, `${gitlab}:8154`, 'GitLab.Example.COM', `${gitlab}.`, `${gitlab}.:443`, ` ${gitlab}`]) {
    t.ok(sharesHost([host], gitlab), host)
    t.ok(sharesHost(['kas.internal', `first.example, ${host}`], gitlab), 'as a front says')
  }
  t.ok(sharesHost([], gitlab), 'a request of HTTP/1.0 may be to any')
  for (const host of ['kas.gitlab.example.com', 'example.com', 'gitlab.example.com.evil.com', '127.0.0.1:8154'])
    t.notOk(sharesHost([host], gitlab), host)
  t.notOk(sharesHost([gitlab], undefined), 'without a GitLab there is none')
  t.ok(sharesHost(['[::1]:8154'], '[::1]'))
})

t.test('a request without a Host may be to any, whatever else it says', async (t) => {
  const gitlab = 'gitlab.example.com'
  for (const name of ['Origin', 'Referer', 'X-Forwarded-Host', 'Forwarded']) {
    const header: [string, string[]][] = [[name, ['https://kas.example.com', 'host=kas.example.com']]]
    t.ok(isSentToGitlab({ hosts: [], header }, gitlab), name)
    t.notOk(isSentToGitlab({ hosts: ['kas.example.com'], header }, gitlab), name)
    t.notOk(isSentToGitlab({ hosts: [], header }, undefined), 'without a GitLab there is none')
  }
  const header: [string, string[]][] = [['Origin', ['null', 'https://gitlab.example.com']]]
  t.ok(isSentToGitlab({ hosts: ['kas-internal'], header }, gitlab))
})
