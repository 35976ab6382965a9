import { abortable } from '../../../../lib/signals.ts'
import type { AdmittedUser, UserEndpoint } from '../../../own-endpoint.ts'
import type { RequestLife } from '../request-life.ts'
import { contentHeaders } from '../response/own-answer.ts'
import type { Admission } from './admission.ts'
import type { Endpoint } from './endpoint.ts'

export interface UserEndpointComponents {
  readonly admission: Pick<Admission, 'user'>
  /** of an answer of kas' own */
  readonly headers: (life: RequestLife) => string[]
}

/** Serves a user what is about the user alone. */
export function userEndpoint(
  own: UserEndpoint,
  { admission, headers }: UserEndpointComponents,
  { ownAnswerTimeoutMs }: { readonly ownAnswerTimeoutMs: number },
): Endpoint<AdmittedUser> {
  const { path, methods } = own
  return {
    path,
    methods,
    admit: admission.user((token) => own.admit(token)),
    async serve({ answer }, { life }) {
      const { exchange } = life
      const { signal } = exchange
      const { status, mediaType, body } = await abortable(answer(signal), signal)
      const all = [...headers(life), ...contentHeaders(mediaType)]
      return (await exchange.answerInPieces(status, all, body, ownAnswerTimeoutMs)) ? 'endpoint' : 'cut'
    },
  }
}
