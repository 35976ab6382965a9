import { join } from 'node:path'
import t from 'tap'
import { findHelm } from '../../../../dev/charts/helm.ts'

t.test('of several versions of helm the newest is taken', async (t) => {
  const folder = t.testdir({ 'helm-3.9.4': { helm: '' }, 'helm-3.22.0': { helm: '' }, 'kustomize-5.8.0': { helm: '' } })
  t.equal(findHelm({ KAS_RENDERERS: folder, PATH: '' }), join(folder, 'helm-3.22.0/helm'))
})

t.test('without the folder it is that of the PATH', async (t) => {
  const folder = t.testdir({ helm: '' })
  t.equal(findHelm({ KAS_RENDERERS: join(folder, 'absent'), PATH: folder }), join(folder, 'helm'))
  t.equal(findHelm({ PATH: join(folder, 'absent') }), undefined)
})
