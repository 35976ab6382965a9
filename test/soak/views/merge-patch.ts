import type { ApiClient } from '../../../dev/control-plane/api-client.ts'

/** @throws Error if the API server refuses */
export async function mergePatch(admin: ApiClient, path: string, body: object): Promise<void> {
  const contentType = 'application/merge-patch+json'
  const answer = await admin.request(path, { method: 'PATCH', contentType, body })
  if (answer.status >= 300) throw new Error(`${path}: HTTP ${answer.status}: ${answer.body}`)
}
