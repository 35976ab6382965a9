import t from 'tap'
import { projectPath } from '../../../../../src/agentk/modules/flux/project-path.ts'

const gitlab = 'https://gitlab.example.com'
const underRoot = 'https://example.com:8443/gitlab/'

const rows: [repository: string, gitlab: string, path: string | undefined][] = [
  ['https://gitlab.example.com/platform/clusters', gitlab, 'platform/clusters'],
  ['https://gitlab.example.com/platform/clusters.git', gitlab, 'platform/clusters'],
  ['https://gitlab.example.com/platform/clusters/', gitlab, 'platform/clusters'],
  ['https://gitlab.example.com/a/b/c/d.git', gitlab, 'a/b/c/d'],
  ['https://GitLab.Example.com:443/a/b.git', gitlab, 'a/b'],
  ['https://gitlab.example.com:8443/a/b', gitlab, 'a/b'],
  ['http://gitlab.example.com/a/b', gitlab, 'a/b'],
  ['https://user:secret@gitlab.example.com/a/b.git', gitlab, 'a/b'],
  ['ssh://git@gitlab.example.com/a/b.git', gitlab, 'a/b'],
  ['ssh://git@GITLAB.example.com:2222/a/b', gitlab, 'a/b'],
  ['ssh://git@[::1]:2222/a/b', 'http://[::1]:8080', 'a/b'],
  ['https://gitlab.example.com/a/b.github.io', gitlab, 'a/b.github.io'],
  ['https://gitlab.example.com/a%2Db/c', gitlab, 'a-b/c'],
  // below a relative root
  ['https://example.com/gitlab/a/b.git', underRoot, 'a/b'],
  ['https://example.com:8443/gitlab/a/b', underRoot, 'a/b'],
  ['ssh://git@example.com:2222/a/b.git', underRoot, 'a/b'],
  ['ssh://git@example.com/gitlab/b.git', underRoot, 'gitlab/b'],
  ['https://example.com/gitlabs/a/b', underRoot, undefined],
  ['https://example.com/a/b', underRoot, undefined],
  // not of this GitLab
  ['https://github.com/a/b', gitlab, undefined],
  ['https://gitlab.example.com.evil.org/a/b', gitlab, undefined],
  ['https://other.gitlab.example.com/a/b', gitlab, undefined],
  ['https://gitlab.example.com/a', gitlab, undefined],
  ['https://gitlab.example.com/', gitlab, undefined],
  ['https://gitlab.example.com/a//b', gitlab, undefined],
  ['https://gitlab.example.com/%zz/b', gitlab, undefined],
  ['git@gitlab.example.com:a/b.git', gitlab, undefined],
  ['file://gitlab.example.com/a/b', gitlab, undefined],
  ['', gitlab, undefined],
  ['https://gitlab.example.com/a/b', '', undefined],
  ['https://gitlab.example.com/a/b', 'x', undefined],
]

t.test('the full path of a project, from the URL of a GitRepository', async (t) => {
  for (const [repository, external, path] of rows) t.equal(projectPath(repository, external), path, repository)
})
