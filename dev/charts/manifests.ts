import { join } from 'node:path'
import { type ChartName, type Rendering, render } from './helm.ts'

/** The plain manifests of deploy/kubernetes, made from the charts. */

interface Manifests {
  readonly chart: ChartName
  /** name of a file in this folder */
  readonly values: string
  readonly set?: readonly string[]
  /** templates of the chart, each with its file in deploy/kubernetes */
  readonly files: Readonly<Record<string, string>>
}

const manifests: readonly Manifests[] = [
  {
    chart: 'kas',
    values: 'kas.yaml',
    files: {
      'access.yaml': 'kas/1-access.yaml',
      'network.yaml': 'kas/2-network.yaml',
      'configuration.yaml': 'kas/3-configuration.yaml',
      'replicas.yaml': 'kas/4-replicas.yaml',
    },
  },
  {
    chart: 'agentk',
    values: 'agentk.yaml',
    files: {
      'access.yaml': 'agentk/1-access.yaml',
      'network.yaml': 'agentk/2-network.yaml',
      'agentk.yaml': 'agentk/3-agentk.yaml',
      'callers.yaml': 'agentk-access/cluster-wide.yaml',
      'views.yaml': 'agentk-views/views.yaml',
      'vendors.yaml': 'agentk-views/vendors.yaml',
      'flux.yaml': 'agentk-flux/flux.yaml',
      'gitsync.yaml': 'agentk-gitops/0-gitsync.yaml',
      'gitops.yaml': 'agentk-gitops/1-agentk.yaml',
      'warning.yaml': 'agentk-gitops/2-warning.yaml',
      'sources.yaml': 'agentk-gitops/per-namespace.yaml',
    },
  },
  { chart: 'agentk', values: 'agentk-namespaces.yaml', files: { 'callers.yaml': 'agentk-access/per-namespace.yaml' } },
]

/**
 * labels by which helm and two installations in one namespace distinguish objects; and annotations that change with a
 * configuration
 */
const helmsLines =
  /^ +(?:app\.kubernetes\.io\/(?:instance|version|managed-by)|helm\.sh\/chart|checksum\/config): .*\n|^ +annotations:\n +helm\.sh\/resource-policy: .*\n/gm

/** Returns the text of each file, by path below deploy/kubernetes. @throws Error with helm's message */
export async function plainManifests(helm: string): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>()
  for (const { chart, values, set = [], files } of manifests) {
    const rendering: Rendering = { chart, values: [join(import.meta.dirname, 'values', values)], set }
    const templates = byTemplate(await render(helm, rendering))
    for (const [template, file] of Object.entries(files)) {
      const documents = templates.get(template)
      if (!documents) throw new Error(`the chart ${chart} renders no ${template}`)
      const text = documents.join('---\n').replaceAll(helmsLines, '')
      texts.set(file, `# Written by \`npm run manifests\` from deploy/charts/${chart}.\n${text}`)
    }
  }
  return texts
}

/** Returns the documents of each template: helm sorts them into the order in which a cluster accepts them. */
function byTemplate(rendered: string): Map<string, string[]> {
  const templates = new Map<string, string[]>()
  for (const document of rendered.split(/^---\n/m)) {
    const [, template, text = ''] = /^# Source: \w+\/templates\/(.*)\n([\s\S]*)$/.exec(document) ?? []
    if (template === undefined) continue
    const documents = templates.get(template) ?? []
    templates.set(template, documents)
    documents.push(text)
  }
  return templates
}
