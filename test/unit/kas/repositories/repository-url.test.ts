import t from 'tap'
import { problemOfRepositoryUrl, usualPollMs } from '../../../../src/kas/repositories/repository-url.ts'

t.test('allowed', async (t) => {
  const allowed = [
    '/srv/git/clusters.git',
    'file:///srv/git/x.git',
    'https://gitlab.example.com:8443/a/b.git',
    'ssh://git@host/x.git',
    'ssh://git@host:2222/x.git',
    'git@gitlab.example.com:a/b.git',
  ]
  for (const url of allowed) t.equal(problemOfRepositoryUrl(url), undefined, url)
})

t.test('refused, without showing the URL', async (t) => {
  const refused = [
    'ext::sh -c id',
    'ext::id',
    'git@host::id',
    'x::y',
    'http://host/x.git',
    'git://host/x.git',
    'ftp://host/x',
    'relative/path',
    '--upload-pack=id',
    'ssh://-oProxyCommand=id/x',
    'ssh://-o@host/x',
    'https://secret@host/x.git',
    'https://user:secret@host/x.git',
    'ssh://git:secret@host/x.git',
    'file://host/x',
    'https://host/a b',
    'https://host/a\nb',
    '',
  ]
  for (const url of refused) {
    const problem = problemOfRepositoryUrl(url)
    t.ok(problem, url)
    t.notMatch(problem, 'secret')
  }
})

t.test('how often it is asked where nothing says it', async (t) => {
  for (const url of ['/srv/git/x.git', 'file:///srv/git/x.git']) t.equal(usualPollMs({ url }), 3000)
  const urls = ['https://h/x.git', 'ssh://git@h/x.git', 'git@h:x.git']
  for (const url of urls) t.equal(usualPollMs({ url }), 30_000, url)
  for (const url of ['/srv/git/x.git', ...urls]) t.equal(usualPollMs({ url, hookSecretFile: '/h' }), 300_000)
})
