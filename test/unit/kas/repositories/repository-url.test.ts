import t from 'tap'
import { problemOfRepositoryUrl } from '../../../../src/kas/repositories/repository-url.ts'

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
