import { existsSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { missingAssets } from '../../../dev/control-plane/assets.ts'
import { isQuicklyMade } from '../../../dev/images/images.ts'
import { LocalStack } from '../../../dev/start/local-stack.ts'
import { anyPorts, replicaCount } from '../../../dev/start/ports.ts'
import { agent } from '../../../dev/start/settings.ts'
import { absent } from '../../support/absent.ts'
import { sbomProblems } from '../../support/cyclonedx/sbom-problems.ts'
import { eventually } from '../../support/eventually.ts'
import { httpsGet } from '../../support/https-get.ts'
import { MadeImages } from './made-images.ts'
import { architecture, places } from './unpacked-image.ts'
import { lacking } from './unpacked-runc.ts'

/** The image with helm and kustomize renders a push, and applies it to a real API server. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const names = ['kas', 'agentk-gitops'] as const
/** folder of `npm run images`; without it the images are made here, if helm was built before, which takes minutes */
const given = process.env.KAS_IMAGES ?? ''
const isGiven = given !== '' && names.every((name) => existsSync(join(given, name)))
const canBeMade =
  !absent('go') && (await Promise.all(names.map((name) => isQuicklyMade(name, architecture)))).every(Boolean)
const withoutImages =
  isGiven || canBeMade
    ? undefined
    : 'needs kas and agentk-gitops in KAS_IMAGES, or npm run images to have made them before'
const withoutAssets = missing.length > 0 ? `needs ${missing.join(', ')}` : undefined
const skip = withoutImages ?? withoutAssets ?? (await lacking()) ?? false
/** time limit on a busy machine */
const soon = { timeoutMs: 60_000 }

const map = (name: string, value: string) =>
  `{ apiVersion: v1, kind: ConfigMap, metadata: { name: ${name} }, data: { value: '${value}' } }\n`

const source = (name: string, more: object) => ({
  id: agent.project.path,
  name,
  paths: [{ glob: `${name}/**/*` }],
  ...more,
})

const pushed = {
  [`.gitlab/agents/${agent.name}/config.yaml`]: JSON.stringify({
    user_access: { access_as: { agent: {} }, projects: [{ id: agent.project.path }] },
    gitops: {
      manifest_projects: [
        source('plain', { paths: [{ glob: 'plain/**/*.yaml' }] }),
        source('overlay', { kustomize: { path: 'overlay' } }),
        source('chart', { helm: { chart: 'chart', values: ['chart/prod.yaml'], release: 'shop' } }),
      ],
    },
  }),
  'plain/map.yaml': map('plain', 'as it is'),
  'overlay/kustomization.yaml': 'namePrefix: by-\nresources: [map.yaml]\n',
  'overlay/map.yaml': map('kustomize', 'prefixed'),
  'chart/Chart.yaml': '{ apiVersion: v2, name: shop, version: 1.0.0 }\n',
  'chart/prod.yaml': 'greeting: of prod\n',
  'chart/templates/map.yaml':
    'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: by-helm }\ndata: { value: {{ .Values.greeting | quote }} }\n',
}

t.test('plain, kustomize and helm sources', { skip, timeout: 200_000 }, async (t) => {
  const images = isGiven ? await MadeImages.given(t, given, ...names) : await MadeImages.make(t, ...names)
  await t.test('its list of components has what Go has brought, once', async (t) => {
    const root = join(images.unpacked('agentk-gitops'), places.root)
    const sbom = JSON.parse(await readFile(join(root, 'usr/share/doc/kas/sbom.cdx.json'), 'utf8'))
    t.strictSame(sbomProblems(sbom), [])
    const components: { name: string; purl: string; version: string }[] = sbom.components
    const purls = components.map(({ purl }) => purl)
    t.equal(new Set(purls).size, purls.length)
    const { purl, version } = components.find(({ name }) => name === 'stdlib') ?? { purl: '', version: '' }
    t.equal(purl, `pkg:golang/stdlib@${version}`)
    for (const program of ['helm', 'kustomize'])
      t.ok(
        (await readFile(join(root, 'usr/bin', program))).includes(`go${version}`),
        `${program} is made by ${version}`,
      )
  })
  const state = join(images.folder, 'state')
  await mkdir(state, { mode: 0o700 })
  const ports = await anyPorts(replicaCount)
  const programs = { kas: images.program('kas', '65532'), agentk: images.program('agentk-gitops', '65532') }
  const stack = new LocalStack({ folder: state, ports, programs, kubeconfig: undefined, assets, example: pushed })
  t.teardown(() => stack.stop(AbortSignal.abort()))
  await stack.start()
  const { authority: ca, userCredential: token } = stack.access
  for (const [name, value] of Object.entries({ plain: 'as it is', 'by-kustomize': 'prefixed', 'by-helm': 'of prod' })) {
    const url = `https://127.0.0.1:${ports.kubernetes}/api/v1/namespaces/default/configmaps/${name}`
    const found = await eventually(async () => {
      const { status, body } = await httpsGet(url, { ca, token })
      if (status !== 200) throw new Error(`${status}: ${body}`)
      return JSON.parse(body)
    }, soon)
    t.match(found, { data: { value } }, name)
  }
})
