"""Small self-written texts in eight languages and English, with changes whose effect on their truth is certain.

A frame is a passage of three sentences with slots, filled by rule. All languages have the same frames, so that their
accuracies can be compared. `WORDS` was at hand when the judge's word lists were written; `UNSEEN`, in seven of the
languages, was not. Every harmful change makes the statement false or unsupported; every harmless one preserves
its truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle

NAMES = (
    "Ada Brunn",
    "Tomas Vega",
    "Mira Solberg",
    "Leo Marten",
    "Nora Lind",
    "Paul Keller",
    "Ines Duarte",
    "Otto Weiss",
)
PLACES = ("Karlshafen", "Ostrava", "Valmora", "Lindau", "Porto Sereno", "Grenholm", "Avila", "Tarnow")
UNSEEN_NAMES = (
    "Clara Voss",
    "Hugo Brandel",
    "Elena Prisco",
    "Viktor Dahl",
    "Rosa Ferrand",
    "Simon Aldous",
    "Greta Holm",
    "Bruno Salvi",
)
UNSEEN_PLACES = ("Marburg", "Salerno", "Kestrel Bay", "Arnhem", "Belforte", "Tolosa", "Evora", "Rennes")
OWN_NAMES = {
    "zh": ("王小明", "李建国", "张丽华", "刘志强", "陈美玲", "杨文静", "赵国栋", "周雅琴"),
    "ja": ("山田太郎", "佐藤花子", "鈴木一郎", "高橋美咲", "田中健二", "伊藤直子", "渡辺誠", "中村陽子"),
}
OWN_PLACES = {
    "zh": ("青岛", "大连", "宁波", "厦门", "珠海", "烟台", "威海", "温州"),
    "ja": ("横浜", "長崎", "函館", "仙台", "神戸", "金沢", "鹿児島", "松山"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A statement and a passage, their language and kind, and whether the passage supports the statement."""

    language: str
    kind: str
    passage: str
    statement: str
    supported: bool


@dataclass(frozen=True, slots=True)
class Words:
    """One language's frames. `{a}`, `{b}` are people, `{p}`, `{q}` places, `{n}`, `{m}` numbers, `{y}`, `{z}` years."""

    built: str
    tall: str
    sales: str
    taught: str
    open: str
    visitors: str
    other_month: tuple[str, str]
    other_unit: tuple[str, str]
    not_built: str
    fell: tuple[str, str]
    closed: tuple[str, str]
    all_few: tuple[str, str]
    before_after: tuple[str, str]
    passive: str
    year_first: str
    synonym: tuple[str, str]
    greeting: tuple[str, str]
    attribution: str
    hedge: str


WORDS: Mapping[str, Words] = {
    "en": Words(
        built="{a} built the lighthouse of {p} in March {y}.",
        tall="The lighthouse is {n} metres tall.",
        sales="Sales rose by {m} percent in {z}.",
        taught="{a} taught {b} in {q}.",
        open="The museum opens at nine after the morning mass.",
        visitors="All visitors need a ticket.",
        other_month=("March", "August"),
        other_unit=("metres", "miles"),
        not_built="{a} did not build the lighthouse of {p} in March {y}.",
        fell=("rose", "fell"),
        closed=("opens", "closes"),
        all_few=("All", "Few"),
        before_after=("after", "before"),
        passive="The lighthouse of {p} was built by {a} in March {y}.",
        year_first="In March {y}, {a} built the lighthouse of {p}.",
        synonym=("rose", "increased"),
        greeting=("Sure!", "I hope this helps! Is there anything else I can help you with?"),
        attribution="According to the document, ",
        hedge="I think that ",
    ),
    "de": Words(
        built="{a} baute den Leuchtturm von {p} im August {y}.",
        tall="Der Leuchtturm ist {n} Meter hoch.",
        sales="Der Umsatz stieg im Jahr {z} um {m} Prozent.",
        taught="{a} unterrichtete {b} in {q}.",
        open="Das Museum öffnet um neun nach der Messe am Vormittag.",
        visitors="Alle Besucher brauchen eine Eintrittskarte.",
        other_month=("August", "Oktober"),
        other_unit=("Meter", "Meilen"),
        not_built="{a} baute den Leuchtturm von {p} nicht im August {y}.",
        fell=("stieg", "sank"),
        closed=("öffnet", "schließt"),
        all_few=("Alle", "Wenige"),
        before_after=("nach der", "vor der"),
        passive="Der Leuchtturm von {p} wurde von {a} im August {y} gebaut.",
        year_first="Im August {y} baute {a} den Leuchtturm von {p}.",
        synonym=("baute", "errichtete"),
        greeting=("Gerne!", "Ich hoffe, das hilft Ihnen weiter! Kann ich sonst noch etwas für Sie tun?"),
        attribution="Laut Dokument: ",
        hedge="Ich glaube, dass ",
    ),
    "fr": Words(
        built="{a} a construit le phare de {p} en août {y}.",
        tall="Le phare mesure {n} mètres de haut.",
        sales="Les ventes ont augmenté de {m} pourcent en {z}.",
        taught="{a} a formé {b} à {q}.",
        open="Le musée ouvre à neuf heures après la messe du matin.",
        visitors="Tous les visiteurs doivent acheter un billet.",
        other_month=("août", "octobre"),
        other_unit=("mètres", "pouces"),
        not_built="{a} n'a pas construit le phare de {p} en août {y}.",
        fell=("augmenté", "diminué"),
        closed=("ouvre", "ferme"),
        all_few=("Tous les", "Peu de"),
        before_after=("après la", "avant la"),
        passive="Le phare de {p} a été construit par {a} en août {y}.",
        year_first="En août {y}, {a} a construit le phare de {p}.",
        synonym=("construit", "bâti"),
        greeting=("Bien sûr !", "J'espère que cela vous aide ! Puis-je vous aider pour autre chose ?"),
        attribution="Selon le document, ",
        hedge="Je pense que ",
    ),
    "es": Words(
        built="{a} construyó el faro de {p} en agosto de {y}.",
        tall="El faro mide {n} metros de altura.",
        sales="Las ventas aumentaron un {m} por ciento en {z}.",
        taught="{a} formó a {b} en {q}.",
        open="El museo abre a las nueve después de la misa.",
        visitors="Todos los visitantes necesitan una entrada.",
        other_month=("agosto", "octubre"),
        other_unit=("metros", "millas"),
        not_built="{a} no construyó el faro de {p} en agosto de {y}.",
        fell=("aumentaron", "bajaron"),
        closed=("abre", "cierra"),
        all_few=("Todos los", "Pocos"),
        before_after=("después", "antes"),
        passive="El faro de {p} fue construido por {a} en agosto de {y}.",
        year_first="En agosto de {y}, {a} construyó el faro de {p}.",
        synonym=("aumentaron", "crecieron"),
        greeting=("¡Claro!", "¡Espero que te sirva! ¿Puedo ayudarte con algo más?"),
        attribution="Según el documento, ",
        hedge="Creo que ",
    ),
    "it": Words(
        built="{a} costruì il faro di {p} nell'agosto {y}.",
        tall="Il faro è alto {n} metri.",
        sales="Le vendite sono aumentate del {m} percento nel {z}.",
        taught="{a} istruì {b} a {q}.",
        open="Il museo apre alle nove dopo la messa.",
        visitors="Tutti i visitatori devono comprare un biglietto.",
        other_month=("agosto", "ottobre"),
        other_unit=("metri", "miglia"),
        not_built="{a} non costruì il faro di {p} nell'agosto {y}.",
        fell=("aumentate", "diminuite"),
        closed=("apre", "chiude"),
        all_few=("Tutti i", "Pochi"),
        before_after=("dopo", "prima"),
        passive="Il faro di {p} fu costruito da {a} nell'agosto {y}.",
        year_first="Nell'agosto {y} {a} costruì il faro di {p}.",
        synonym=("aumentate", "salite"),
        greeting=("Certo!", "Spero che sia utile! Posso aiutarti con qualcos'altro?"),
        attribution="Secondo il documento, ",
        hedge="Penso che ",
    ),
    "pt": Words(
        built="{a} construiu o farol de {p} em agosto de {y}.",
        tall="O farol tem {n} metros de altura.",
        sales="As vendas aumentaram {m} por cento em {z}.",
        taught="{a} ensinou {b} em {q}.",
        open="O museu abre às nove depois da missa.",
        visitors="Todos os visitantes precisam de um bilhete.",
        other_month=("agosto", "outubro"),
        other_unit=("metros", "milhas"),
        not_built="{a} não construiu o farol de {p} em agosto de {y}.",
        fell=("aumentaram", "diminuíram"),
        closed=("abre", "fecha"),
        all_few=("Todos os", "Poucos"),
        before_after=("depois", "antes"),
        passive="O farol de {p} foi construído por {a} em agosto de {y}.",
        year_first="Em agosto de {y}, {a} construiu o farol de {p}.",
        synonym=("aumentaram", "cresceram"),
        greeting=("Claro!", "Espero que ajude! Posso ajudar em mais alguma coisa?"),
        attribution="De acordo com o documento, ",
        hedge="Acho que ",
    ),
    "nl": Words(
        built="{a} bouwde de vuurtoren van {p} in augustus {y}.",
        tall="De vuurtoren is {n} meter hoog.",
        sales="De omzet steeg in {z} met {m} procent.",
        taught="{a} onderwees {b} in {q}.",
        open="Het museum opent om negen uur na de mis.",
        visitors="Alle bezoekers hebben een kaartje nodig.",
        other_month=("augustus", "oktober"),
        other_unit=("meter", "mijl"),
        not_built="{a} bouwde de vuurtoren van {p} niet in augustus {y}.",
        fell=("steeg", "daalde"),
        closed=("opent", "sluit"),
        all_few=("Alle", "Weinig"),
        before_after=("na de", "voor de"),
        passive="De vuurtoren van {p} werd door {a} in augustus {y} gebouwd.",
        year_first="In augustus {y} bouwde {a} de vuurtoren van {p}.",
        synonym=("steeg", "groeide"),
        greeting=("Zeker!", "Ik hoop dat dit helpt! Kan ik nog iets anders voor u doen?"),
        attribution="Volgens het document: ",
        hedge="Ik denk dat ",
    ),
    "zh": Words(
        built="{a}于{y}年3月在{p}建造了灯塔。",
        tall="灯塔高{n}米。",
        sales="{z}年销售额上升了百分之{m}。",
        taught="{a}在{q}教过{b}。",
        open="博物馆在早晨弥撒之后开放。",
        visitors="所有游客都需要门票。",
        other_month=("3月", "8月"),
        other_unit=("米", "英里"),
        not_built="{a}没有于{y}年3月在{p}建造灯塔。",
        fell=("上升", "下降"),
        closed=("开放", "关闭"),
        all_few=("所有", "少数"),
        before_after=("之后", "之前"),
        passive="{p}的灯塔由{a}于{y}年3月建造。",
        year_first="{y}年3月,{a}在{p}建造了灯塔。",
        synonym=("上升", "增长"),
        greeting=("好的！", "希望这对您有帮助！请问还有其他问题吗？"),
        attribution="根据文档，",
        hedge="我认为，",
    ),
    "ja": Words(
        built="{a}は{y}年3月に{p}の灯台を建設した。",
        tall="灯台の高さは{n}メートルである。",
        sales="{z}年に売上は{m}パーセント増加した。",
        taught="{a}は{q}で{b}を教えた。",
        open="博物館は朝の礼拝の後に開館する。",
        visitors="すべての来館者は入場券が必要である。",
        other_month=("3月", "8月"),
        other_unit=("メートル", "マイル"),
        not_built="{a}は{y}年3月に{p}の灯台を建設しなかった。",
        fell=("増加", "減少"),
        closed=("開館", "閉館"),
        all_few=("すべての", "少数の"),
        before_after=("の後に", "の前に"),
        passive="{p}の灯台は{y}年3月に{a}によって建設された。",
        year_first="{y}年3月、{a}は{p}の灯台を建設した。",
        synonym=("増加", "上昇"),
        greeting=("はい。", "お役に立てれば幸いです。他にご質問はありますか？"),
        attribution="文書によると、",
        hedge="私の知る限り、",
    ),
}
UNSEEN: Mapping[str, Words] = {
    "en": Words(
        built="{a} founded the bakery in {p} in June {y}.",
        tall="The bridge is {n} kilometres long.",
        sales="The rent fell by {m} percent in {z}.",
        taught="{a} defeated {b} in {q}.",
        open="The shop closes at six before the evening concert.",
        visitors="Most members pay the full fee.",
        other_month=("June", "November"),
        other_unit=("kilometres", "feet"),
        not_built="{a} did not found the bakery in {p} in June {y}.",
        fell=("fell", "rose"),
        closed=("closes", "opens"),
        all_few=("Most", "Few"),
        before_after=("before", "after"),
        passive="The bakery in {p} was founded by {a} in June {y}.",
        year_first="In June {y}, {a} founded the bakery in {p}.",
        synonym=("fell", "dropped"),
        greeting=("Hello!", "Let me know if you have further questions."),
        attribution="Based on the report, ",
        hedge="As far as I know, ",
    ),
    "de": Words(
        built="{a} gründete die Bäckerei in {p} im Juni {y}.",
        tall="Die Brücke ist {n} Kilometer lang.",
        sales="Die Miete sank im Jahr {z} um {m} Prozent.",
        taught="{a} besiegte {b} in {q}.",
        open="Der Laden schließt um sechs vor dem Konzert am Abend.",
        visitors="Die meisten Mitglieder zahlen den vollen Beitrag.",
        other_month=("Juni", "November"),
        other_unit=("Kilometer", "Zentimeter"),
        not_built="{a} gründete die Bäckerei in {p} nicht im Juni {y}.",
        fell=("sank", "stieg"),
        closed=("schließt", "öffnet"),
        all_few=("Die meisten", "Nur wenige"),
        before_after=("vor dem", "nach dem"),
        passive="Die Bäckerei in {p} wurde im Juni {y} von {a} gegründet.",
        year_first="Im Juni {y} gründete {a} die Bäckerei in {p}.",
        synonym=("sank", "fiel"),
        greeting=("Hallo!", "Melden Sie sich gern bei weiteren Fragen."),
        attribution="Im Bericht steht: ",
        hedge="Soweit ich weiß: ",
    ),
    "fr": Words(
        built="{a} a fondé la boulangerie de {p} en juin {y}.",
        tall="Le pont mesure {n} kilomètres de long.",
        sales="Le loyer a baissé de {m} pourcent en {z}.",
        taught="{a} a battu {b} à {q}.",
        open="La boutique ferme à six heures avant le concert du soir.",
        visitors="La plupart des membres paient la cotisation entière.",
        other_month=("juin", "novembre"),
        other_unit=("kilomètres", "centimètres"),
        not_built="{a} n'a pas fondé la boulangerie de {p} en juin {y}.",
        fell=("baissé", "monté"),
        closed=("ferme", "ouvre"),
        all_few=("La plupart des", "Peu de"),
        before_after=("avant le", "après le"),
        passive="La boulangerie de {p} a été fondée par {a} en juin {y}.",
        year_first="En juin {y}, {a} a fondé la boulangerie de {p}.",
        synonym=("baissé", "diminué"),
        greeting=("Bonjour !", "N'hésitez pas à me poser d'autres questions."),
        attribution="D'après le rapport, ",
        hedge="À ma connaissance, ",
    ),
    "es": Words(
        built="{a} fundó la panadería de {p} en junio de {y}.",
        tall="El puente mide {n} kilómetros de largo.",
        sales="El alquiler bajó un {m} por ciento en {z}.",
        taught="{a} derrotó a {b} en {q}.",
        open="La tienda cierra a las seis antes del concierto.",
        visitors="La mayoría de los socios paga la cuota completa.",
        other_month=("junio", "noviembre"),
        other_unit=("kilómetros", "centímetros"),
        not_built="{a} no fundó la panadería de {p} en junio de {y}.",
        fell=("bajó", "subió"),
        closed=("cierra", "abre"),
        all_few=("La mayoría de los socios paga", "Pocos socios pagan"),
        before_after=("antes", "después"),
        passive="La panadería de {p} fue fundada por {a} en junio de {y}.",
        year_first="En junio de {y}, {a} fundó la panadería de {p}.",
        synonym=("bajó", "cayó"),
        greeting=("¡Hola!", "Quedo a tu disposición para cualquier otra pregunta."),
        attribution="De acuerdo con el informe, ",
        hedge="Hasta donde sé, ",
    ),
    "it": Words(
        built="{a} fondò il panificio di {p} nel giugno {y}.",
        tall="Il ponte è lungo {n} chilometri.",
        sales="L'affitto è sceso del {m} percento nel {z}.",
        taught="{a} sconfisse {b} a {q}.",
        open="Il negozio chiude alle sei prima del concerto.",
        visitors="La maggior parte dei soci paga la quota intera.",
        other_month=("giugno", "novembre"),
        other_unit=("chilometri", "centimetri"),
        not_built="{a} non fondò il panificio di {p} nel giugno {y}.",
        fell=("sceso", "salito"),
        closed=("chiude", "apre"),
        all_few=("La maggior parte dei soci paga", "Pochi soci pagano"),
        before_after=("prima del", "dopo il"),
        passive="Il panificio di {p} fu fondato da {a} nel giugno {y}.",
        year_first="Nel giugno {y} {a} fondò il panificio di {p}.",
        synonym=("sceso", "calato"),
        greeting=("Ciao!", "Non esitare a farmi altre domande."),
        attribution="In base al rapporto, ",
        hedge="Per quanto ne so, ",
    ),
    "pt": Words(
        built="{a} fundou a padaria de {p} em junho de {y}.",
        tall="A ponte tem {n} quilómetros de comprimento.",
        sales="A renda desceu {m} por cento em {z}.",
        taught="{a} derrotou {b} em {q}.",
        open="A loja fecha às seis antes do concerto.",
        visitors="A maioria dos sócios paga a quota completa.",
        other_month=("junho", "novembro"),
        other_unit=("quilómetros", "centímetros"),
        not_built="{a} não fundou a padaria de {p} em junho de {y}.",
        fell=("desceu", "subiu"),
        closed=("fecha", "abre"),
        all_few=("A maioria dos sócios paga", "Poucos sócios pagam"),
        before_after=("antes", "depois"),
        passive="A padaria de {p} foi fundada por {a} em junho de {y}.",
        year_first="Em junho de {y}, {a} fundou a padaria de {p}.",
        synonym=("desceu", "caiu"),
        greeting=("Olá!", "Fico à disposição para outras perguntas."),
        attribution="Segundo o relatório, ",
        hedge="Tanto quanto sei, ",
    ),
    "nl": Words(
        built="{a} stichtte de bakkerij van {p} in juni {y}.",
        tall="De brug is {n} kilometer lang.",
        sales="De huur daalde in {z} met {m} procent.",
        taught="{a} versloeg {b} in {q}.",
        open="De winkel sluit om zes uur voor het concert.",
        visitors="De meeste leden betalen de volledige bijdrage.",
        other_month=("juni", "november"),
        other_unit=("kilometer", "centimeter"),
        not_built="{a} stichtte de bakkerij van {p} niet in juni {y}.",
        fell=("daalde", "steeg"),
        closed=("sluit", "opent"),
        all_few=("De meeste", "Weinig"),
        before_after=("voor het", "na het"),
        passive="De bakkerij van {p} werd in juni {y} door {a} gesticht.",
        year_first="In juni {y} stichtte {a} de bakkerij van {p}.",
        synonym=("daalde", "zakte"),
        greeting=("Hallo!", "Laat het me weten als u nog vragen heeft."),
        attribution="In het rapport staat: ",
        hedge="Voor zover ik weet: ",
    ),
}
"""Written after the word lists and the weights of version 4 were fixed; neither was changed for them."""

LANGUAGES = tuple(WORDS)
FILLINGS = 12


def cases(language: str, *, unseen: bool = False) -> Iterator[Case]:
    """All cases of one language: each frame with each of `FILLINGS` sets of names, places and numbers."""
    words = (UNSEEN if unseen else WORDS)[language]
    people = cycle(UNSEEN_NAMES if unseen else OWN_NAMES.get(language, NAMES))
    places = cycle(UNSEEN_PLACES if unseen else OWN_PLACES.get(language, PLACES))
    gap = "" if language in ("zh", "ja") else " "
    for filling in range(FILLINGS):
        slots: dict[str, str | int] = {
            "a": next(people),
            "b": next(people),
            "c": next(people),
            "p": next(places),
            "q": next(places),
            "n": 31 + 3 * filling,
            "m": 12 + filling,
            "y": 1871 + 5 * filling,
            "z": 2004 + filling,
        }
        facts = [words.built, words.tall, words.sales, words.taught, words.open, words.visitors]
        built, tall, sales, taught, opens, visitors = (fact.format(**slots) for fact in facts)
        passage = gap.join((built, tall, sales, taught, opens, visitors))

        def swap(text: str, pair: tuple[str, str]) -> str:
            return text.replace(pair[0], pair[1], 1)

        wrong = {
            "number": words.tall.format(**{**slots, "n": 38 + 3 * filling}),
            "date": swap(built, words.other_month),
            "name": words.built.format(**{**slots, "a": slots["c"]}),
            "unit": swap(tall, words.other_unit),
            "negation": words.not_built.format(**slots),
            "antonym": swap(sales, words.fell),
            "quantifier": swap(visitors, words.all_few),
            "direction": swap(opens, words.before_after),
            "roles": words.taught.format(**{**slots, "a": slots["b"], "b": slots["a"]}),
            "other antonym": swap(opens, words.closed),
        }
        right = {
            "copy": built,
            "second copy": sales,
            "several copies": gap.join((tall, sales, visitors)),
            "voice": words.passive.format(**slots),
            "order": words.year_first.format(**slots),
            "synonym": swap(built if words.synonym[0] in built else sales, words.synonym),
            "greeting": gap.join((words.greeting[0], tall, words.greeting[1])),
            "attribution": words.attribution + built,
            "formatting": f"- {tall}\n- **{visitors}**",
            "hedge": words.hedge + tall,
        }
        for kind, statement in wrong.items():
            yield Case(language, kind, passage, statement, False)
        for kind, statement in right.items():
            yield Case(language, kind, passage, statement, True)
