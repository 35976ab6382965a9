import t from 'tap'
import { Environments, environmentOf } from '../../../../../../src/agentk/modules/views/projection/environments.ts'

t.test('an environment of GitLab, by both labels', async (t) => {
  const of = (labels: unknown) => environmentOf({ metadata: { labels } })
  const project = 'app.gitlab.com/project_id'
  const slug = 'app.gitlab.com/environment_slug'
  t.equal(of({ [project]: '17', [slug]: 'production' }), '17/production')
  for (const labels of [
    undefined,
    null,
    'x',
    { [project]: '17' },
    { [slug]: 'production' },
    { [project]: 17, [slug]: 'production' },
    { [project]: '17/18', [slug]: 'production' },
    { [project]: '17', [slug]: 'x'.repeat(300) },
  ]) {
    t.equal(of(labels), '', JSON.stringify(labels))
  }
})

t.test('an environment of the directory file, by namespace and labels; labels put nothing into it', async (t) => {
  const environments = new Environments([
    { key: '1/production', namespace: 'shop', selector: { app: 'web', tier: 'front' } },
    { key: '1/staging', namespace: '', selector: { stage: 'yes' } },
    { key: '2/all', namespace: 'all', selector: {} },
  ])
  const gitlab = (slug: string) => ({ 'app.gitlab.com/project_id': '1', 'app.gitlab.com/environment_slug': slug })
  const cases: [namespace: string, labels: object | undefined, expected: string][] = [
    ['shop', { app: 'web', tier: 'front', more: 'x' }, '1/production'],
    ['shop', { app: 'web' }, ''],
    ['bank', { app: 'web', tier: 'front' }, ''],
    ['bank', { stage: 'yes' }, '1/staging'],
    ['all', undefined, '2/all'],
    ['all', gitlab('other'), '2/all'],
    ['bank', gitlab('production'), ''],
    ['bank', gitlab('review'), '1/review'],
  ]
  for (const [namespace, labels, expected] of cases) {
    t.equal(environments.of({ metadata: { namespace, labels } }), expected, JSON.stringify([namespace, labels]))
  }
})
